#include "data/samples/blend_arrays.h"

#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

namespace cairn::data {
namespace {

IndexCache::Arrays build(const BlendPlan& plan, BlendRounding rounding) {
  BlendIndex index = plan.size
      ? build_blend_index(
            std::get<0>(plan.weights),
            static_cast<std::size_t>(*plan.size),
            rounding)
      : build_exhaustive_blend_index(std::get<1>(plan.weights), rounding);
  return {
      IndexArray::of(std::move(index.datasets)),
      IndexArray::of(std::move(index.samples))};
}

std::string misfit(const IndexCache::Arrays& arrays, const BlendPlan& plan) {
  std::int64_t expected = plan.size.value_or(0);
  if (!plan.size) {
    const auto& sizes = std::get<1>(plan.weights);
    expected = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  }
  const std::vector<std::size_t> shape{static_cast<std::size_t>(expected)};
  const bool fits = arrays[0].type() == IndexType::int16 &&
      arrays[1].type() == IndexType::int64 && arrays[0].shape() == shape &&
      arrays[1].shape() == shape;
  return fits ? "" : "they are for another number of samples";
}

} // namespace

BlendArrays open_blend_arrays(
    const BlendPlan& plan,
    Split split,
    BlendRounding rounding,
    std::span<const Description> datasets,
    IndexCache* cache) {
  if (!cache) {
    IndexCache::Arrays arrays = build(plan, rounding);
    return {std::move(arrays[0]), std::move(arrays[1])};
  }
  Description description =
      describe_blend(datasets, split, plan.weights, plan.size);
  if (rounding != native_blend_rounding()) {
    description["rounding"] = "not this machine's";
  }
  IndexCache::Result found = cache->get(
      {.class_name = "BlendedDataset",
       .split = split,
       .description = text_of(description),
       .arrays = {"dataset_index", "dataset_sample_index"}},
      [&](const IndexCache::Arrays& arrays) { return misfit(arrays, plan); },
      [&] { return build(plan, rounding); });
  return {
      std::move(found.arrays[0]),
      std::move(found.arrays[1]),
      found.origin != IndexOrigin::built_in_memory};
}

} // namespace cairn::data
