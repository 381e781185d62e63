#include <cairn/nn/placed_scores.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>

#include <cstdint>
#include <limits>

namespace cairn::nn {

at::Tensor placed_mask(
    const PlacedScores& placed,
    std::int64_t queries,
    std::int64_t keys,
    bool causal,
    at::ScalarType type) {
  const auto& [by_distance, by_key] = placed;
  const at::Tensor& any = by_distance.defined() ? by_distance : by_key;
  const auto places = at::TensorOptions(at::kLong).device(any.device());
  const at::Tensor distances = at::arange(keys, places).unsqueeze(0) -
      at::arange(queries, places).unsqueeze(1);
  at::Tensor mask;
  if (by_distance.defined()) {
    mask = by_distance.index_select(1, (distances + (queries - 1)).flatten())
               .view({1, by_distance.size(0), queries, keys});
  }
  if (by_key.defined()) {
    const at::Tensor of_keys = by_key.unsqueeze(1).unsqueeze(1);
    mask = mask.defined() ? mask + of_keys : of_keys;
  }
  if (causal) {
    mask = mask.masked_fill(
        distances.gt(0),
        -std::numeric_limits<double>::infinity());
  }
  return mask.to(type);
}

} // namespace cairn::nn
