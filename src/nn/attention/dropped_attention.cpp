#include "nn/attention/dropped_attention.h"

#include "nn/attention/fused_attention.h"
#include "nn/attention/longer_heads.h"
#include "nn/linear/dropped_rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <cairn/nn/dropout.h>

#include <cmath>
#include <limits>

namespace cairn::nn {
namespace {

/// Keys or values for every head of queries, [batch, heads, keys, size].
at::Tensor for_queries(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t shared = heads / x.size(2);
  return heads_first(
      shared == 1
          ? x
          : x.unsqueeze(3).expand({-1, -1, -1, shared, -1}).flatten(2, 3));
}

/// Scores without those that the options hide.
at::Tensor seen(const at::Tensor& scores, const AttendOptions& options) {
  if (options.mask.defined() && options.mask.scalar_type() != at::kBool) {
    return scores + options.mask;
  }
  if (!options.mask.defined() && !options.causal) {
    return scores;
  }
  const at::Tensor visible = options.mask.defined()
      ? options.mask
      : at::ones(
            {scores.size(2), scores.size(3)},
            scores.options().dtype(at::kBool))
            .tril();
  return scores.masked_fill(
      visible.logical_not(),
      -std::numeric_limits<double>::infinity());
}

/// The noise with a number for each sample.
AttentionNoise with_samples_of(AttentionNoise noise, const at::Tensor& query) {
  if (!noise.samples.defined()) {
    noise.samples = drawn_samples(query.size(0), query.device());
  }
  return noise;
}

at::Tensor by_operators(
    const AttentionInput& input,
    const AttendOptions& options,
    double scale) {
  const at::Tensor query = heads_first(input.query);
  const std::int64_t heads = query.size(1);
  const at::Tensor scores =
      at::matmul(query * scale, for_queries(input.key, heads).transpose(2, 3));
  const at::Tensor weights = at::_safe_softmax(seen(scores, options), -1);
  kernels::DropoutRows place{.heads = heads, .tokens = query.size(2)};
  place.early = place.tokens;
  place.first_head = options.noise.first_head;
  place.key = options.noise.key;
  place.drop(options.dropout);
  const at::Tensor kept = dropped_rows(weights, options.noise.samples, place);
  return heads_first(at::matmul(kept, for_queries(input.value, heads)))
      .flatten(2, 3);
}

} // namespace

at::Tensor attend_dropping(
    const AttentionInput& input,
    const AttendOptions& given) {
  AttendOptions options = given;
  options.noise = with_samples_of(given.noise, input.query);
  const std::int64_t size = input.query.size(3);
  const double scale =
      options.scale.value_or(1 / std::sqrt(static_cast<double>(size)));
  const DroppedScores how{
      .scores =
          {.causal = options.causal && !options.mask.defined(), .scale = scale},
      .mask = options.mask,
      .dropout = options.dropout,
      .noise = options.noise};
  const bool on_gpu = input.query.is_cuda();
  const AttentionInput whole_eights = on_gpu ? in_whole_eights(input) : input;
  if (on_gpu && attends_fused(whole_eights, how)) {
    return attend_fused(whole_eights, how).narrow(3, 0, size).flatten(2, 3);
  }
  return by_operators(input, options, scale);
}

} // namespace cairn::nn
