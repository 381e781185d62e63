#include "nn/attention/gpu_attention.h"

#include "kernels/internal/cuda/join_heads.h"
#include "nn/attention/dropped_capsule.h"
#include "nn/attention/fused_attention.h"
#include "nn/attention/joined_gradient.h"
#include "nn/attention/joined_parts.h"
#include "nn/fp8/fp8_linear.h"
#include "nn/linear/compute_type.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/second_derivatives.h"
#include "nn/linear/summed_parts.h"

#include <ATen/SDPBackend.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <cairn/nn/dropout.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <utility>
#include <vector>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// True when our kernels take tables of angles for such a tensor.
bool fit(const RotaryAngles& angles, const at::Tensor& joined) {
  const auto& [cosine, sine] = angles;
  return has_row_kernels(cosine) && has_row_kernels(sine) &&
      cosine.scalar_type() == joined.scalar_type() &&
      sine.scalar_type() == joined.scalar_type() &&
      cosine.sizes() == sine.sizes() && cosine.size(1) == joined.size(1) &&
      (cosine.size(0) == 1 || cosine.size(0) == joined.size(0)) &&
      2 * cosine.size(3) == joined.size(4) &&
      cuda::can_join_heads(joined_shape(joined), {}, joined_angles(angles));
}

/// Queries, keys and values in three tensors [batch, sequence, heads, size],
/// queries and keys turned.
AttentionInput split(const at::Tensor& joined, const RotaryAngles& angles) {
  const auto heads = [&](std::int64_t count) {
    return at::empty(
        {joined.size(0), joined.size(1), count, joined.size(4)},
        joined.options());
  };
  const std::int64_t groups = joined.size(2);
  const AttentionInput parts{
      heads(groups * (joined.size(3) - 2)),
      heads(groups),
      heads(groups)};
  run_kernel(joined, "split heads", [&](void* stream) {
    return cuda::split_heads(
        joined_shape(joined),
        joined.const_data_ptr(),
        joined_angles(angles),
        parts.query.mutable_data_ptr(),
        parts.key.mutable_data_ptr(),
        parts.value.mutable_data_ptr(),
        stream);
  });
  return parts;
}

/// The three as attention takes them, [batch, heads, sequence, size]. Views
/// where that is possible.
AttentionInput for_attention(
    const at::Tensor& joined,
    const RotaryAngles& angles) {
  const bool turns = angles.cosine.defined();
  const AttentionInput parts = turns || !has_even_heads(joined)
      ? split(joined, angles)
      : joined_parts(joined);
  return {
      heads_first(parts.query),
      heads_first(parts.key),
      heads_first(parts.value)};
}

/// The mask in the form that is added to scores.
at::Tensor addend_of(const at::Tensor& mask, at::ScalarType type) {
  if (!mask.defined() || mask.scalar_type() != at::kBool) {
    return mask.defined() ? mask.to(type) : mask;
  }
  return at::zeros(mask.sizes(), mask.options().dtype(type))
      .masked_fill_(
          mask.logical_not(),
          -std::numeric_limits<double>::infinity());
}

DroppedScores dropped_scores(const SelfScores& how) {
  return {
      .scores =
          {.causal = how.scores.causal && !how.mask.defined(),
           .scale = how.scores.scale},
      .mask = how.mask,
      .placed = how.placed,
      .dropout = how.dropout,
      .noise = how.noise};
}

/// Gradients of the joined tensor, and of the bias that was added to it (if it
/// is defined and needs one).
variable_list joined_gradients(
    AutogradContext& context,
    const AttentionInput& gradients,
    const RotaryAngles& angles,
    const at::Tensor& bias) {
  const bool of_bias = bias.defined() && context.needs_input_grad(1);
  const JoinedGradient gradient = join_gradients(
      context.saved_data["shape"].toIntVector(),
      gradients,
      angles,
      kept_rounded_gradient(context),
      of_bias ? TokenSums::wanted : TokenSums::none);
  return {
      gradient.whole,
      of_bias ? summed_parts(gradient.parts, bias) : at::Tensor()};
}

/// `bias` was added to `joined`, and has no other way to its gradient.
struct GpuAttention : torch::autograd::Function<GpuAttention> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& joined,
      const std::optional<at::Tensor>& bias,
      const SelfScores& how,
      const RoundedGradientPtr& of_joined) {
    keep_rounded_gradient(*context, of_joined);
    const Scores& scores = how.scores;
    const RotaryAngles& angles = how.angles;
    const AttentionInput input = for_attention(joined, angles);
    const at::Tensor addend = addend_of(how.mask, joined.scalar_type());
    const auto found = at::_scaled_dot_product_cudnn_attention(
        input.query,
        input.key,
        input.value,
        addend.defined() ? std::optional(addend) : std::nullopt,
        /*compute_log_sumexp=*/true,
        /*dropout_p=*/0,
        scores.causal && !addend.defined(),
        /*return_debug_mask=*/false,
        scores.scale);
    const at::Tensor& output = std::get<0>(found);
    context->save_for_backward(
        {input.query,
         input.key,
         input.value,
         output,
         std::get<1>(found), // logarithms of sums
         std::get<6>(found), // seed and offset of dropout
         std::get<7>(found),
         bias.value_or(at::Tensor()),
         angles.cosine,
         angles.sine,
         addend});
    context->saved_data["shape"] = joined.sizes().vec();
    context->saved_data["causal"] = scores.causal && !addend.defined();
    context->saved_data["scale"] = scores.scale;
    return heads_first(output);
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("attention");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& query = saved[0];
    const at::Tensor& key = saved[1];
    const at::Tensor& value = saved[2];
    const at::Tensor& bias = saved[7];
    const auto [of_query, of_key, of_value] =
        at::_scaled_dot_product_cudnn_attention_backward(
            heads_first(outer[0]),
            query,
            key,
            value,
            saved[3],
            saved[4],
            saved[5],
            saved[6],
            /*attn_bias=*/saved[10],
            /*cum_seq_q=*/{},
            /*cum_seq_k=*/{},
            query.size(2),
            key.size(2),
            /*dropout_p=*/0,
            context->saved_data["causal"].toBool(),
            context->saved_data["scale"].toDouble());
    variable_list results = joined_gradients(
        *context,
        {of_query, of_key, of_value},
        {saved[8], saved[9]},
        bias);
    results.resize(4);
    return results;
  }
};

/// Attention that drops weights or adds to scores by place, by our own kernel.
struct OwnGpuAttention : torch::autograd::Function<OwnGpuAttention> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& joined,
      const std::optional<at::Tensor>& bias,
      const std::optional<at::Tensor>& /*by distance, of `how`*/,
      const SelfScores& how,
      const RoundedGradientPtr& of_joined) {
    keep_rounded_gradient(*context, of_joined);
    DroppedScores dropped = dropped_scores(how);
    if (how.dropout > 0 && !dropped.noise.samples.defined()) {
      dropped.noise.samples = drawn_samples(joined.size(0), joined.device());
    }
    const auto [query, key, value] = for_attention(joined, how.angles);
    const AttentionInput input{
        heads_first(query),
        heads_first(key),
        heads_first(value)};
    const auto [output, log_sum] = fused_forward(input, dropped);
    variable_list saved{
        input.query,
        input.key,
        input.value,
        output,
        log_sum,
        bias.value_or(at::Tensor()),
        how.angles.cosine,
        how.angles.sine};
    for (const at::Tensor& each : keep_dropped(*context, dropped)) {
      saved.push_back(each);
    }
    context->save_for_backward(std::move(saved));
    context->saved_data["shape"] = joined.sizes().vec();
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("attention");
    const variable_list saved = context->get_saved_variables();
    const DroppedScores how = kept_dropped(*context, saved, 8);
    at::Tensor by_distance;
    // libtorch numbers the tensors that there are.
    const std::size_t after_bias = saved[5].defined() ? 2 : 1;
    const bool of_distance = how.placed.by_distance.defined() &&
        context->needs_input_grad(after_bias);
    const AttentionGradients gradients = fused_backward(
        outer[0],
        {saved[0], saved[1], saved[2]},
        {saved[3], saved[4]},
        how,
        of_distance ? &by_distance : nullptr);
    variable_list results = joined_gradients(
        *context,
        {heads_first(gradients.query),
         heads_first(gradients.key),
         heads_first(gradients.value)},
        {saved[6], saved[7]},
        saved[5]);
    results.push_back(std::move(by_distance));
    results.resize(5);
    return results;
  }
};

bool attends_by_own_kernel(const SelfScores& how) {
  return how.dropout > 0 || how.placed.defined();
}

/// Attention of a joined tensor, to which `bias` was added, and whose gradient
/// may go its own way.
at::Tensor attend_with_bias(
    const at::Tensor& joined,
    const std::optional<at::Tensor>& bias,
    const SelfScores& how,
    const RoundedGradientPtr& of_joined) {
  if (!attends_by_own_kernel(how)) {
    return GpuAttention::apply(joined, bias, how, of_joined);
  }
  const at::Tensor& by_distance = how.placed.by_distance;
  return OwnGpuAttention::apply(
      joined,
      bias,
      by_distance.defined() ? std::optional(by_distance) : std::nullopt,
      how,
      of_joined);
}

/// A projection's weight or bias with `more` rows of zeros after every `rows`.
at::Tensor with_zeros_between(
    const at::Tensor& parameter,
    std::int64_t rows,
    std::int64_t more) {
  const at::Tensor parts = parameter.unflatten(0, {-1, rows});
  return parameter.dim() == 2
      ? at::constant_pad_nd(parts, {0, 0, 0, more}).flatten(0, 1)
      : at::constant_pad_nd(parts, {0, more}).flatten(0, 1);
}

/// project_and_attend_on_gpu() with `missing` zeros more in each head, which
/// change no score, so that the GPU's attention takes its size. Half of them
/// come after each half of a head where rotary positions turn the halves
/// together.
std::optional<at::Tensor> attend_with_longer_heads(
    const LayerInput& given,
    const JoinedProjection& projection,
    const SelfScores& scores,
    std::int64_t missing) {
  const auto& [weight, bias, groups, size, fp8] = projection;
  const bool rotary = scores.angles.cosine.defined();
  const std::int64_t parts = rotary ? 2 : 1;
  const std::int64_t part = size / parts;
  const std::int64_t more = missing / parts;
  SelfScores longer = scores;
  if (rotary) {
    longer.angles = {
        at::constant_pad_nd(scores.angles.cosine, {0, more}),
        at::constant_pad_nd(scores.angles.sine, {0, more})};
  }
  auto attended = project_and_attend_on_gpu(
      given,
      {.weight = with_zeros_between(weight, part, more),
       .bias = bias.defined() ? with_zeros_between(bias, part, more) : bias,
       .groups = groups,
       .size = size + missing,
       .fp8 = fp8},
      longer);
  if (attended) {
    attended = attended->unflatten(2, {-1, part + more})
                   .narrow(3, 0, part)
                   .flatten(2, 3);
  }
  return attended;
}

} // namespace

bool attends_joined_on_gpu(const at::Tensor& joined, const SelfScores& how) {
  const Scores& scores = how.scores;
  const RotaryAngles& angles = how.angles;
  const at::Tensor& mask = how.mask;
  if (!is_on_gpu(joined) || joined.scalar_type() == at::kFloat ||
      !joined.is_contiguous() || joined.size(4) % 8 != 0 ||
      (mask.defined() && mask.requires_grad()) ||
      (angles.cosine.defined() && !fit(angles, joined))) {
    return false;
  }
  // Tensors like those that attention will see, in memory that there is:
  // nothing is read.
  const auto heads = [&](std::int64_t count) {
    const std::int64_t size = joined.size(4);
    const at::Tensor like = joined.detach().as_strided(
        {joined.size(0), joined.size(1), count, size},
        {joined.size(1) * count * size, count * size, size, 1});
    return heads_first(like).requires_grad_(at::GradMode::is_enabled());
  };
  const std::int64_t groups = joined.size(2);
  const std::int64_t queries = joined.size(3) - 2;
  if (attends_by_own_kernel(how)) {
    return attends_fused(
        {heads_first(heads(groups * queries)),
         heads_first(heads(groups)),
         heads_first(heads(groups))},
        dropped_scores(how));
  }
  const auto backend = static_cast<at::SDPBackend>(at::_fused_sdp_choice(
      heads(groups * queries),
      heads(groups),
      heads(groups),
      mask.defined() ? std::optional(mask) : std::nullopt,
      /*dropout_p=*/0,
      scores.causal && !mask.defined(),
      scores.scale,
      /*enable_gqa=*/queries > 1));
  return backend == at::SDPBackend::cudnn_attention;
}

at::Tensor attend_joined_on_gpu(
    const at::Tensor& joined,
    const SelfScores& scores) {
  return attend_with_bias(joined, std::nullopt, scores, {});
}

std::optional<at::Tensor> project_and_attend_on_gpu(
    const LayerInput& given,
    const JoinedProjection& projection,
    const SelfScores& scores) {
  const at::Tensor& x = given.x;
  if (!x.is_cuda()) {
    return std::nullopt;
  }
  const auto& [weight, bias, groups, size, fp8] = projection;
  // Kernels take words of 8 values, of each half of a head that is turned.
  const std::int64_t step = scores.angles.cosine.defined() ? 16 : 8;
  if (const std::int64_t missing = (step - size % step) % step; missing > 0) {
    return attend_with_longer_heads(given, projection, scores, missing);
  }
  const std::vector<std::int64_t> shape{
      x.size(0),
      x.size(1),
      groups,
      weight.size(0) / (groups * size),
      size};
  if (!attends_joined_on_gpu( // its memory is free again at once
          at::empty(shape, in_compute_type(weight).options()),
          scores)) {
    return std::nullopt;
  }
  const at::Tensor addend = in_compute_type(bias);
  const RoundedGradientPtr of_joined = way_of_rounded_gradient(x, weight, fp8);
  const at::Tensor joined = fp8_linear(
      given,
      weight,
      addend.defined() ? addend.detach() : addend,
      fp8,
      of_joined);
  return attend_with_bias(
             joined.view(shape),
             addend.defined() ? std::optional(addend) : std::nullopt,
             scores,
             of_joined)
      .flatten(2, 3);
}

} // namespace cairn::nn
