#include "nn/attention/head_attention.h"

#include "kernels/internal/cpu/attention.h"
#include "kernels/internal/cpu/matrix_product.h"
#include "kernels/internal/in_parallel.h"
#include "nn/attention/gpu_attention.h"
#include "nn/attention/joined_parts.h"
#include "nn/linear/product.h"
#include "nn/linear/second_derivatives.h"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>

namespace cairn::nn {
namespace {

namespace cpu = kernels::cpu;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The tensor, copied unless the values of its last dimension lie together.
at::Tensor packed(const at::Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
}

AttentionInput packed(const AttentionInput& x) {
  return {packed(x.query), packed(x.key), packed(x.value)};
}

cpu::HeadRows<const float> read(
    const at::Tensor& x,
    std::int64_t batch,
    std::int64_t head) {
  return {
      x.const_data_ptr<float>() + batch * x.stride(0) + head * x.stride(2),
      x.stride(1)};
}

cpu::HeadRows<float> write(
    const at::Tensor& x,
    std::int64_t batch,
    std::int64_t head) {
  return {
      x.mutable_data_ptr<float>() + batch * x.stride(0) + head * x.stride(2),
      x.stride(1)};
}

/// Clears the rows of one head.
void clear(cpu::HeadRows<float> rows, const cpu::HeadShape& shape) {
  for (std::int64_t i = 0; i < shape.keys; ++i) {
    std::fill_n(rows.data + i * rows.step, shape.size, 0.0F);
  }
}

cpu::HeadShape shape_of(const AttentionInput& input, const Scores& scores) {
  return {
      .queries = input.query.size(1),
      .keys = input.key.size(1),
      .size = input.query.size(3),
      .scale = static_cast<float>(scores.scale),
      .causal = scores.causal};
}

void keep_scores(AutogradContext& context, const Scores& scores) {
  context.saved_data["causal"] = scores.causal;
  context.saved_data["scale"] = scores.scale;
}

Scores kept_scores(AutogradContext& context) {
  return {
      .causal = context.saved_data["causal"].toBool(),
      .scale = context.saved_data["scale"].toDouble()};
}

/// heads_backward() into existing tensors.
void write_gradients(
    const at::Tensor& given_gradient,
    const AttentionInput& given,
    const PartialAttention& whole,
    const Scores& scores,
    const AttentionGradients& into) {
  const at::Tensor gradient = packed(given_gradient);
  const AttentionInput input = packed(given);
  const at::Tensor log_sum = whole.log_sum.contiguous();
  const std::array<c10::IValue, 3> inputs{input.query, input.key, input.value};
  RECORD_FUNCTION("cairn::attention_backward", inputs);
  if (cpu::has_matrix_product()) {
    const cpu::HeadShape shape = shape_of(input, scores);
    const std::int64_t heads = input.query.size(2);
    const std::int64_t groups = input.key.size(2);
    const std::int64_t shared = heads / groups;
    const float* const sums = log_sum.const_data_ptr<float>();
    // One group at a time: its heads add to the same keys.
    kernels::in_parallel(
        input.query.size(0) * groups,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t b = i / groups;
            const std::int64_t g = i % groups;
            const cpu::HeadRows<float> of_key = write(into.key, b, g);
            const cpu::HeadRows<float> of_value = write(into.value, b, g);
            clear(of_key, shape);
            clear(of_value, shape);
            for (std::int64_t h = g * shared; h < (g + 1) * shared; ++h) {
              cpu::attend_head_backward(
                  shape,
                  {read(input.query, b, h),
                   read(input.key, b, g),
                   read(input.value, b, g)},
                  read(whole.output, b, h),
                  read(gradient, b, h),
                  sums + (b * heads + h) * shape.queries,
                  {write(into.query, b, h), of_key, of_value});
            }
          }
        });
  }
}

struct HeadAttention : torch::autograd::Function<HeadAttention> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& query,
      const at::Tensor& key,
      const at::Tensor& value,
      const Scores& scores) {
    const AttentionInput input = packed(AttentionInput{query, key, value});
    const auto [output, log_sum] = heads_forward(input, scores);
    context->save_for_backward(
        {input.query, input.key, input.value, output, log_sum});
    keep_scores(*context, scores);
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("attention");
    const variable_list saved = context->get_saved_variables();
    const AttentionGradients gradients = heads_backward(
        outer[0],
        {saved[0], saved[1], saved[2]},
        {saved[3], saved[4]},
        kept_scores(*context));
    return {gradients.query, gradients.key, gradients.value, {}};
  }
};

/// Attention whose gradient is written where the product before it reads it, so
/// that no copy has to join three tensors.
struct JoinedAttention : torch::autograd::Function<JoinedAttention> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& joined,
      const Scores& scores) {
    const auto [output, log_sum] = heads_forward(joined_parts(joined), scores);
    context->save_for_backward({joined, output, log_sum});
    keep_scores(*context, scores);
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("attention");
    const variable_list saved = context->get_saved_variables();
    at::Tensor gradient = at::empty(saved[0].sizes(), saved[0].options());
    const auto [query, key, value] = joined_parts(gradient);
    write_gradients(
        outer[0],
        joined_parts(saved[0]),
        {saved[1], saved[2]},
        kept_scores(*context),
        {query, key, value});
    return {gradient, {}};
  }
};

} // namespace

PartialAttention heads_forward(
    const AttentionInput& given,
    const Scores& scores) {
  const AttentionInput input = packed(given);
  const at::Tensor& query = input.query;
  const std::array<c10::IValue, 3> inputs{query, input.key, input.value};
  RECORD_FUNCTION("cairn::attention", inputs);
  const std::int64_t batch = query.size(0);
  const std::int64_t heads = query.size(2);
  const std::int64_t shared = heads / input.key.size(2);
  const at::Tensor output = at::empty(query.sizes(), query.options());
  const at::Tensor log_sum =
      at::empty({batch, heads, query.size(1)}, query.options());
  if (cpu::has_matrix_product()) {
    const cpu::HeadShape shape = shape_of(input, scores);
    float* const sums = log_sum.mutable_data_ptr<float>();
    kernels::in_parallel(
        batch * heads,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t b = i / heads;
            const std::int64_t h = i % heads;
            cpu::attend_head(
                shape,
                {read(query, b, h),
                 read(input.key, b, h / shared),
                 read(input.value, b, h / shared)},
                write(output, b, h),
                sums + i * shape.queries);
          }
        });
  }
  return {output, log_sum};
}

AttentionGradients heads_backward(
    const at::Tensor& gradient,
    const AttentionInput& input,
    const PartialAttention& whole,
    const Scores& scores) {
  const auto& [query, key, value] = input;
  const AttentionGradients into{
      at::empty(query.sizes(), query.options()),
      at::empty(key.sizes(), key.options()),
      at::empty(value.sizes(), value.options())};
  write_gradients(gradient, input, whole, scores, into);
  return into;
}

bool attends_by_heads(const AttentionInput& input, double dropout) {
  const auto& [query, key, value] = input;
  // Tensors that do not fit together are left to libtorch, which says so.
  return dropout == 0 && has_cpu_kernels(query) && has_cpu_kernels(key) &&
      has_cpu_kernels(value) && query.dim() == 4 && key.dim() == 4 &&
      key.sizes() == value.sizes() && query.size(0) == key.size(0) &&
      query.size(3) == key.size(3) && key.size(2) > 0 &&
      query.size(2) % key.size(2) == 0;
}

at::Tensor attend_by_heads(const AttentionInput& input, const Scores& scores) {
  return HeadAttention::apply(input.query, input.key, input.value, scores)
      .flatten(2, 3);
}

bool attends_joined(const at::Tensor& joined, const Scores& scores) {
  return (has_cpu_kernels(joined) && has_even_heads(joined)) ||
      attends_joined_on_gpu(joined, {scores});
}

at::Tensor attend_joined(const at::Tensor& joined, const Scores& scores) {
  const at::Tensor result = joined.is_cpu()
      ? JoinedAttention::apply(joined, scores)
      : attend_joined_on_gpu(joined, {scores});
  return result.flatten(2, 3);
}

} // namespace cairn::nn
