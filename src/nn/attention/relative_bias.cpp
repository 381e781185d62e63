#include "nn/internal/relative_bias.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/where.h>

#include <cmath>

namespace cairn::nn {
namespace {

/// Buckets by the number of tokens that the key is behind the query.
at::Tensor buckets_of(
    const at::Tensor& behind,
    const RelativeBiasOptions& options) {
  std::int64_t buckets = options.buckets;
  at::Tensor first = at::zeros_like(behind);
  at::Tensor distance = behind.clamp_min(0);
  if (options.bidirectional) {
    buckets /= 2;
    first = behind.lt(0).to(at::kLong).mul_(buckets);
    distance = behind.abs();
  }
  // Half of the buckets have one distance each; the ranges of the others grow.
  const std::int64_t exact = buckets / 2;
  const double growth = std::log(
      static_cast<double>(options.distance) / static_cast<double>(exact));
  const at::Tensor grown = (distance.clamp_min(1)
                                .to(at::kFloat)
                                .div_(exact)
                                .log_()
                                .div_(growth)
                                .mul_(buckets - exact))
                               .to(at::kLong)
                               .add_(exact)
                               .clamp_max_(buckets - 1);
  return first + at::where(distance < exact, distance, grown);
}

} // namespace

at::Tensor relative_buckets(
    std::int64_t queries,
    std::int64_t keys,
    const RelativeBiasOptions& options,
    at::Device device) {
  const auto places = at::TensorOptions(at::kLong).device(device);
  return buckets_of(
      at::arange(queries, places).unsqueeze(1) -
          at::arange(keys, places).unsqueeze(0),
      options);
}

at::Tensor relative_bias(
    const at::Tensor& weight,
    std::int64_t queries,
    std::int64_t keys,
    const RelativeBiasOptions& options) {
  const at::Tensor buckets =
      relative_buckets(queries, keys, options, weight.device());
  // [queries, keys, heads] to [1, heads, queries, keys]
  return at::embedding(weight, buckets).permute({2, 0, 1}).unsqueeze(0);
}

at::Tensor relative_bias_by_distance(
    const at::Tensor& weight,
    std::int64_t queries,
    std::int64_t keys,
    const RelativeBiasOptions& options) {
  const at::Tensor behind = at::arange(
      queries - 1,
      -keys,
      -1,
      at::TensorOptions(at::kLong).device(weight.device()));
  return at::embedding(weight, buckets_of(behind, options))
      .t()
      .to(at::kFloat, false, false, at::MemoryFormat::Contiguous);
}

RelativeBias::RelativeBias(
    const LayerContext& context,
    const RelativeBiasOptions& options)
    : options_(options) {
  weight_ = add_parameter(
      context,
      "weight",
      SlicedShape::cut(
          {options.buckets, options.heads},
          1,
          context.group,
          "the attention heads"),
      model::InitialLaw::normal);
}

at::Tensor RelativeBias::forward(std::int64_t queries, std::int64_t keys)
    const {
  return relative_bias(weight_, queries, keys, options_);
}

} // namespace cairn::nn
