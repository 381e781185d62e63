#include "nn/attention/gpu_attention.h"

#include "kernels/internal/cuda/join_heads.h"
#include "nn/attention/joined_parts.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/linear_product.h"
#include "nn/linear/summed_parts.h"

#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>
#include <vector>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A tensor [batch, heads, tokens, size] as our kernel reads it.
cuda::Heads heads_of(const at::Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(2), x.stride(1)};
}

/// The gradient of the joined tensor, and its sums over groups of tokens.
struct JoinedGradient {
  at::Tensor whole;
  at::Tensor parts; ///< float, [parts, columns]
};

/// Puts gradients [batch, heads, tokens, size] to their places in a tensor like
/// `joined`.
JoinedGradient join_gradients(
    const at::Tensor& joined,
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value) {
  JoinedGradient gradient{at::empty(joined.sizes(), joined.options()), {}};
  const cuda::JoinedShape shape{
      .batch = joined.size(0),
      .tokens = joined.size(1),
      .groups = joined.size(2),
      .queries = joined.size(3) - 2,
      .size = joined.size(4),
      .element = *kernels::element_of(joined.scalar_type())};
  const bool dense =
      query.stride(3) == 1 && key.stride(3) == 1 && value.stride(3) == 1;
  const std::int64_t columns = joined.stride(1);
  if (!dense ||
      !cuda::can_join_heads(
          shape,
          heads_of(query),
          heads_of(key),
          heads_of(value))) {
    const AttentionInput into = joined_parts(gradient.whole);
    into.query.copy_(heads_first(query));
    into.key.copy_(heads_first(key));
    into.value.copy_(heads_first(value));
    gradient.parts =
        gradient.whole.view({-1, columns}).sum(0, /*keepdim=*/true, at::kFloat);
    return gradient;
  }
  gradient.parts = at::empty(
      {cuda::joined_parts(shape), columns},
      joined.options().dtype(at::kFloat));
  run_kernel(joined, "joined heads", [&](void* stream) {
    return cuda::join_heads(
        shape,
        heads_of(query),
        heads_of(key),
        heads_of(value),
        gradient.whole.mutable_data_ptr(),
        gradient.parts.mutable_data_ptr<float>(),
        stream);
  });
  return gradient;
}

/// `bias` was added to `joined`, and has no other way to its gradient.
struct GpuAttention : torch::autograd::Function<GpuAttention> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& joined,
      const std::optional<at::Tensor>& bias,
      const Scores& scores) {
    const AttentionInput input = joined_parts(joined);
    const auto found = at::_scaled_dot_product_cudnn_attention(
        heads_first(input.query),
        heads_first(input.key),
        heads_first(input.value),
        /*attn_bias=*/std::nullopt,
        /*compute_log_sumexp=*/true,
        /*dropout_p=*/0,
        scores.causal,
        /*return_debug_mask=*/false,
        scores.scale);
    const at::Tensor& output = std::get<0>(found);
    context->save_for_backward(
        {joined,
         bias.value_or(at::Tensor()),
         output,
         std::get<1>(found), // logarithms of sums
         std::get<6>(found), // seed and offset of dropout
         std::get<7>(found)});
    context->saved_data["causal"] = scores.causal;
    context->saved_data["scale"] = scores.scale;
    return heads_first(output);
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& joined = saved[0];
    const at::Tensor& bias = saved[1];
    const AttentionInput input = joined_parts(joined);
    const auto [query, key, value] =
        at::_scaled_dot_product_cudnn_attention_backward(
            heads_first(outer[0]),
            heads_first(input.query),
            heads_first(input.key),
            heads_first(input.value),
            saved[2],
            saved[3],
            saved[4],
            saved[5],
            /*attn_bias=*/{},
            /*cum_seq_q=*/{},
            /*cum_seq_k=*/{},
            joined.size(1),
            joined.size(1),
            /*dropout_p=*/0,
            context->saved_data["causal"].toBool(),
            context->saved_data["scale"].toDouble());
    JoinedGradient gradient = join_gradients(joined, query, key, value);
    const bool of_bias = bias.defined() && context->needs_input_grad(1);
    return {
        std::move(gradient.whole),
        of_bias ? summed_parts(gradient.parts, bias) : at::Tensor(),
        {}};
  }
};

} // namespace

bool attends_joined_on_gpu(const at::Tensor& joined, const Scores& scores) {
  if (!is_on_gpu(joined) || joined.scalar_type() == at::kFloat ||
      !has_even_heads(joined)) {
    return false;
  }
  const AttentionInput input = joined_parts(joined);
  const auto backend = static_cast<at::SDPBackend>(at::_fused_sdp_choice(
      heads_first(input.query),
      heads_first(input.key),
      heads_first(input.value),
      /*attn_mask=*/std::nullopt,
      /*dropout_p=*/0,
      scores.causal,
      scores.scale,
      /*enable_gqa=*/input.query.size(2) != input.key.size(2)));
  return backend == at::SDPBackend::cudnn_attention;
}

at::Tensor attend_joined_on_gpu(
    const at::Tensor& joined,
    const Scores& scores) {
  return GpuAttention::apply(joined, std::nullopt, scores);
}

std::optional<at::Tensor> project_and_attend_on_gpu(
    const at::Tensor& x,
    const JoinedProjection& projection,
    const Scores& scores) {
  if (!x.is_cuda()) {
    return std::nullopt;
  }
  const auto& [weight, bias, groups, size] = projection;
  const std::vector<std::int64_t> shape{
      x.size(0),
      x.size(1),
      groups,
      weight.size(0) / (groups * size),
      size};
  const at::Tensor typed = in_compute_type(weight);
  if (!attends_joined_on_gpu(at::empty(shape, typed.options()), scores)) {
    return std::nullopt;
  }
  const at::Tensor addend = in_compute_type(bias);
  const at::Tensor joined =
      linear(x, weight, addend.defined() ? addend.detach() : addend);
  return GpuAttention::apply(
             joined.view(shape),
             addend.defined() ? std::optional(addend) : std::nullopt,
             scores)
      .flatten(2, 3);
}

} // namespace cairn::nn
