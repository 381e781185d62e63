#include "nn/attention/head_attention.h"

#include "kernels/internal/cpu/attention.h"
#include "kernels/internal/cpu/matrix_product.h"
#include "kernels/internal/in_parallel.h"
#include "nn/linear/product.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace cairn::nn {
namespace {

namespace cpu = kernels::cpu;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The tensor, copied unless the values of its last dimension lie together.
at::Tensor packed(const at::Tensor& x) {
  return x.stride(3) == 1 ? x : x.contiguous();
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

cpu::HeadShape shape_of(
    const at::Tensor& query,
    const at::Tensor& key,
    bool causal,
    double scale) {
  return {
      query.size(1),
      key.size(1),
      query.size(3),
      static_cast<float>(scale),
      causal};
}

/// heads_backward() into existing tensors.
void write_gradients(
    const at::Tensor& given_gradient,
    const at::Tensor& given_query,
    const at::Tensor& given_key,
    const at::Tensor& given_value,
    const PartialAttention& whole,
    bool causal,
    double scale,
    const AttentionGradients& into) {
  const at::Tensor gradient = packed(given_gradient);
  const at::Tensor query = packed(given_query);
  const at::Tensor key = packed(given_key);
  const at::Tensor value = packed(given_value);
  const at::Tensor log_sum = whole.log_sum.contiguous();
  if constexpr (cpu::has_matrix_product) {
    const cpu::HeadShape shape = shape_of(query, key, causal, scale);
    const std::int64_t heads = query.size(2);
    const std::int64_t groups = key.size(2);
    const std::int64_t shared = heads / groups;
    const float* const sums = log_sum.const_data_ptr<float>();
    // One group at a time: its heads add to the same keys.
    kernels::in_parallel(
        query.size(0) * groups,
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
                  {read(query, b, h), read(key, b, g), read(value, b, g)},
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
      const at::Tensor& given_query,
      const at::Tensor& given_key,
      const at::Tensor& given_value,
      bool causal,
      double scale) {
    const at::Tensor query = packed(given_query);
    const at::Tensor key = packed(given_key);
    const at::Tensor value = packed(given_value);
    const auto [output, log_sum] =
        heads_forward(query, key, value, causal, scale);
    context->save_for_backward({query, key, value, output, log_sum});
    context->saved_data["causal"] = causal;
    context->saved_data["scale"] = scale;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    const variable_list saved = context->get_saved_variables();
    const AttentionGradients gradients = heads_backward(
        outer[0],
        saved[0],
        saved[1],
        saved[2],
        {saved[3], saved[4]},
        context->saved_data["causal"].toBool(),
        context->saved_data["scale"].toDouble());
    return {gradients.query, gradients.key, gradients.value, {}, {}};
  }
};

/// Queries, keys and values that lie together in [batch, sequence, groups,
/// heads + 2, size].
struct JoinedHeads {
  explicit JoinedHeads(const at::Tensor& joined)
      : query(joined.narrow(3, 0, joined.size(3) - 2).flatten(2, 3)),
        key(joined.select(3, joined.size(3) - 2)),
        value(joined.select(3, joined.size(3) - 1)) {}

  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

/// Attention whose gradient is written where the product before it reads it, so
/// that no copy has to join three tensors.
struct JoinedAttention : torch::autograd::Function<JoinedAttention> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& joined,
      bool causal,
      double scale) {
    const JoinedHeads heads(joined);
    const auto [output, log_sum] =
        heads_forward(heads.query, heads.key, heads.value, causal, scale);
    context->save_for_backward({joined, output, log_sum});
    context->saved_data["causal"] = causal;
    context->saved_data["scale"] = scale;
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    const variable_list saved = context->get_saved_variables();
    const JoinedHeads heads(saved[0]);
    at::Tensor gradient = at::empty(saved[0].sizes(), saved[0].options());
    const JoinedHeads parts(gradient);
    write_gradients(
        outer[0],
        heads.query,
        heads.key,
        heads.value,
        {saved[1], saved[2]},
        context->saved_data["causal"].toBool(),
        context->saved_data["scale"].toDouble(),
        {parts.query, parts.key, parts.value});
    return {gradient, {}, {}};
  }
};

} // namespace

PartialAttention heads_forward(
    const at::Tensor& given_query,
    const at::Tensor& given_key,
    const at::Tensor& given_value,
    bool causal,
    double scale) {
  const at::Tensor query = packed(given_query);
  const at::Tensor key = packed(given_key);
  const at::Tensor value = packed(given_value);
  const std::int64_t batch = query.size(0);
  const std::int64_t heads = query.size(2);
  const std::int64_t shared = heads / key.size(2);
  const at::Tensor output = at::empty(query.sizes(), query.options());
  const at::Tensor log_sum =
      at::empty({batch, heads, query.size(1)}, query.options());
  if constexpr (cpu::has_matrix_product) {
    const cpu::HeadShape shape = shape_of(query, key, causal, scale);
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
                 read(key, b, h / shared),
                 read(value, b, h / shared)},
                write(output, b, h),
                sums + i * shape.queries);
          }
        });
  }
  return {output, log_sum};
}

AttentionGradients heads_backward(
    const at::Tensor& gradient,
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const PartialAttention& whole,
    bool causal,
    double scale) {
  const AttentionGradients into{
      at::empty(query.sizes(), query.options()),
      at::empty(key.sizes(), key.options()),
      at::empty(value.sizes(), value.options())};
  write_gradients(gradient, query, key, value, whole, causal, scale, into);
  return into;
}

bool attends_by_heads(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    double dropout) {
  // Tensors that do not fit together are left to libtorch, which says so.
  return dropout == 0 && has_own_product(query) && has_own_product(key) &&
      has_own_product(value) && query.dim() == 4 && key.dim() == 4 &&
      key.sizes() == value.sizes() && query.size(0) == key.size(0) &&
      query.size(3) == key.size(3) && key.size(2) > 0 &&
      query.size(2) % key.size(2) == 0;
}

at::Tensor attend_by_heads(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    bool causal,
    double scale) {
  return HeadAttention::apply(query, key, value, causal, scale).flatten(2, 3);
}

bool attends_joined(const at::Tensor& joined, double dropout) {
  const bool one_step = joined.size(2) == 1 || joined.size(3) == 3;
  return dropout == 0 && has_own_product(joined) && one_step &&
      joined.is_contiguous();
}

at::Tensor attend_joined(const at::Tensor& joined, bool causal, double scale) {
  return JoinedAttention::apply(joined, causal, scale).flatten(2, 3);
}

} // namespace cairn::nn
