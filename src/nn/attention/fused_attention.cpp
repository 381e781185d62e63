#include "nn/attention/fused_attention.h"

#include "kernels/internal/cuda/attention.h"
#include "kernels/internal/dropout_rows.h"
#include "nn/attention/dropped_capsule.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/second_derivatives.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::nn {
namespace {

namespace cuda = kernels::cuda;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A tensor [batch, tokens, heads, size] as the kernels read it.
cuda::Heads fused_heads(const at::Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

cuda::HeadsTarget fused_target(const at::Tensor& x) {
  return {x.mutable_data_ptr(), x.stride(0), x.stride(1), x.stride(2)};
}

cuda::HeadsOfAll fused_heads(const AttentionInput& input) {
  return {
      fused_heads(input.query),
      fused_heads(input.key),
      fused_heads(input.value)};
}

/// The tensor, copied unless eight of its elements lie together at multiples of
/// 16 bytes.
at::Tensor in_eights(const at::Tensor& x) {
  const bool fits = x.stride(3) == 1 && x.stride(0) % 8 == 0 &&
      x.stride(1) % 8 == 0 && x.stride(2) % 8 == 0 &&
      reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 16 == 0;
  return fits ? x : x.clone(at::MemoryFormat::Contiguous);
}

AttentionInput in_eights(const AttentionInput& x) {
  return {in_eights(x.query), in_eights(x.key), in_eights(x.value)};
}

cuda::ScoreMask mask_of(
    const at::Tensor& mask,
    std::int64_t batch,
    std::int64_t heads,
    std::int64_t queries,
    std::int64_t keys) {
  if (!mask.defined()) {
    return {};
  }
  const at::Tensor all = mask.expand({batch, heads, queries, keys});
  const bool visible = mask.scalar_type() == at::kBool;
  return {
      .kind = visible ? cuda::ScoreMask::Kind::visible
                      : cuda::ScoreMask::Kind::added,
      .data = all.const_data_ptr(),
      .element = visible ? kernels::Element::fp32
                         : *kernels::element_of(mask.scalar_type()),
      .batch_step = all.stride(0),
      .head_step = all.stride(1),
      .query_step = all.stride(2),
      .key_step = all.stride(3)};
}

const std::int32_t* documents_of(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<std::int32_t>() : nullptr;
}

cuda::PlacedScores placed_of(const PlacedScores& x) {
  const auto floats = [](const at::Tensor& each) {
    return each.defined() ? each.const_data_ptr<float>() : nullptr;
  };
  return {floats(x.by_distance), floats(x.by_key)};
}

/// The kernels' description; the tensors are those of `how`.
cuda::Attention fused_shape(
    const AttentionInput& input,
    const DroppedScores& how) {
  const at::Tensor& query = input.query;
  const at::Tensor& key = input.key;
  kernels::DropoutRows rates;
  rates.drop(how.dropout);
  const at::Tensor& samples = how.noise.samples;
  if (samples.defined() &&
      (samples.numel() != query.size(0) ||
       samples.device() != query.device())) {
    throw UsageError(
        {.what = "attention that drops weights needs the number of each "
                 "sample, on its device",
         .values = fmt::format(
             "{} numbers for {} samples",
             samples.numel(),
             query.size(0))});
  }
  return {
      .batch = query.size(0),
      .queries = query.size(1),
      .keys = key.size(1),
      .heads = query.size(2),
      .groups = key.size(2),
      .size = query.size(3),
      .element = *kernels::element_of(query.scalar_type()),
      .scale = static_cast<float>(how.scores.scale),
      .first_query = how.first_query,
      .first_key = how.first_key,
      .causal = how.scores.causal,
      .mask = mask_of(
          how.mask,
          query.size(0),
          query.size(2),
          query.size(1),
          key.size(1)),
      .placed = placed_of(how.placed),
      .query_documents = documents_of(how.query_documents),
      .key_documents = documents_of(how.key_documents),
      .dropout = {
          .samples = samples.defined() ? samples.const_data_ptr<std::int64_t>()
                                       : nullptr,
          .first_head = how.noise.first_head,
          .key = how.noise.key,
          .threshold = rates.threshold,
          .scale = rates.scale}};
}

/// fused_backward(), which also writes the gradients of scores to `added`
/// [batch, heads, queries, keys] where that is defined.
AttentionGradients write_gradients_of_fused(
    const at::Tensor& given_gradient,
    const AttentionInput& given,
    const PartialAttention& whole,
    const DroppedScores& how,
    const at::Tensor& added,
    at::Tensor* by_distance) {
  const AttentionInput input = in_eights(given);
  const std::array<c10::IValue, 3> inputs{input.query, input.key, input.value};
  RECORD_FUNCTION("cairn::attention_backward", inputs);
  const at::Tensor gradient = in_eights(given_gradient);
  const at::Tensor output = in_eights(whole.output);
  const at::Tensor log_sum = whole.log_sum.contiguous();
  const auto dense = [](const at::Tensor& x) {
    return at::empty(x.sizes(), x.options());
  };
  const AttentionGradients result{
      dense(input.query),
      dense(input.key),
      dense(input.value)};
  const at::Tensor of_rows = at::empty({log_sum.numel(), 2}, log_sum.options());
  const cuda::Attention shape = fused_shape(input, how);
  const at::Tensor parts = by_distance != nullptr
      ? at::empty(
            {cuda::distance_parts(shape),
             shape.heads,
             shape.queries + shape.keys - 1},
            log_sum.options())
      : at::Tensor();
  run_kernel(input.query, "attention backward", [&](void* stream) {
    return cuda::attend_backward(
        shape,
        fused_heads(input),
        {fused_heads(output),
         fused_heads(gradient),
         log_sum.const_data_ptr<float>()},
        of_rows.mutable_data_ptr<float>(),
        {fused_target(result.query),
         fused_target(result.key),
         fused_target(result.value),
         added.defined() ? added.mutable_data_ptr() : nullptr,
         parts.defined() ? parts.mutable_data_ptr<float>() : nullptr},
        stream);
  });
  if (by_distance != nullptr) {
    *by_distance = parts.sum(0);
  }
  return result;
}

/// Sums over the dimensions that the mask repeats.
at::Tensor gradient_of_mask(const at::Tensor& added, const at::Tensor& mask) {
  std::vector<std::int64_t> repeated;
  for (std::int64_t i = 0; i < mask.dim(); ++i) {
    if (mask.size(i) != added.size(i)) {
      repeated.push_back(i);
    }
  }
  return repeated.empty()
      ? added.to(mask.scalar_type())
      : added.sum(repeated, /*keepdim=*/true, mask.scalar_type());
}

struct FusedAttention : torch::autograd::Function<FusedAttention> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& query,
      const at::Tensor& key,
      const at::Tensor& value,
      const std::optional<at::Tensor>& /*mask of `how`*/,
      const DroppedScores& how) {
    const auto [output, log_sum] = fused_forward({query, key, value}, how);
    variable_list saved{query, key, value, output, log_sum};
    for (const at::Tensor& each : keep_dropped(*context, how)) {
      saved.push_back(each);
    }
    context->save_for_backward(std::move(saved));
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list outer) {
    refuse_second_derivatives("attention");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& query = saved[0];
    const at::Tensor& key = saved[1];
    const DroppedScores how = kept_dropped(*context, saved, 5);
    const bool of_mask = how.mask.defined() && context->needs_input_grad(3);
    const at::Tensor added = of_mask
        ? at::zeros(
              {query.size(0), query.size(2), query.size(1), key.size(1)},
              query.options())
        : at::Tensor();
    const AttentionGradients gradients = write_gradients_of_fused(
        outer[0],
        {query, key, saved[2]},
        {saved[3], saved[4]},
        how,
        added,
        nullptr);
    return {
        gradients.query,
        gradients.key,
        gradients.value,
        of_mask ? gradient_of_mask(added, how.mask) : at::Tensor(),
        {}};
  }
};

bool fits_mask(const at::Tensor& mask) {
  return !mask.defined() ||
      (mask.dim() == 4 && mask.is_cuda() &&
       (mask.scalar_type() == at::kBool ||
        kernels::element_of(mask.scalar_type()).has_value()));
}

bool fits_placed(const PlacedScores& placed) {
  const auto fits = [](const at::Tensor& x) {
    return !x.defined() ||
        (x.is_cuda() && x.scalar_type() == at::kFloat && x.is_contiguous());
  };
  return fits(placed.by_distance) && fits(placed.by_key);
}

} // namespace

bool attends_fused(const AttentionInput& input, const DroppedScores& how) {
  const auto& [query, key, value] = input;
  return is_on_gpu(query) && query.scalar_type() != at::kFloat &&
      key.scalar_type() == query.scalar_type() &&
      value.scalar_type() == query.scalar_type() && query.dim() == 4 &&
      key.dim() == 4 && key.sizes() == value.sizes() &&
      query.size(0) == key.size(0) && query.size(3) == key.size(3) &&
      key.size(2) > 0 && query.size(2) % key.size(2) == 0 &&
      query.size(3) % 8 == 0 && query.size(3) <= 128 && how.scores.scale > 0 &&
      fits_mask(how.mask) && fits_placed(how.placed);
}

PartialAttention fused_forward(
    const AttentionInput& given,
    const DroppedScores& how) {
  const AttentionInput input = in_eights(given);
  const at::Tensor& query = input.query;
  const std::array<c10::IValue, 3> inputs{query, input.key, input.value};
  RECORD_FUNCTION("cairn::attention", inputs);
  const at::Tensor output = at::empty(query.sizes(), query.options());
  const at::Tensor log_sum = at::empty(
      {query.size(0), query.size(2), query.size(1)},
      query.options().dtype(at::kFloat));
  run_kernel(query, "attention", [&](void* stream) {
    return cuda::attend(
        fused_shape(input, how),
        fused_heads(input),
        fused_target(output),
        log_sum.mutable_data_ptr<float>(),
        stream);
  });
  return {output, log_sum};
}

AttentionGradients fused_backward(
    const at::Tensor& gradient,
    const AttentionInput& input,
    const PartialAttention& whole,
    const DroppedScores& how,
    at::Tensor* by_distance) {
  return write_gradients_of_fused(gradient, input, whole, how, {}, by_distance);
}

at::Tensor attend_fused(const AttentionInput& input, const DroppedScores& how) {
  return FusedAttention::apply(
      input.query,
      input.key,
      input.value,
      how.mask.defined() ? std::optional(how.mask) : std::nullopt,
      how);
}

} // namespace cairn::nn
