#pragma once

#include <cairn/data/data_selection.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::data {

/// The dataset of every sample of a blend, and the sample's index in it. At any
/// point each dataset has had its share, as nearly as possible.
struct BlendIndex {
  std::vector<std::int16_t> datasets;
  std::vector<std::int64_t> samples;
  bool operator==(const BlendIndex&) const = default;
};

/// Builds an index of `size` samples by (normalized) weights; sample for sample
/// Megatron's.
BlendIndex build_blend_index(
    std::span<const double> weights,
    std::size_t size,
    BlendRounding rounding);

/// Builds an index with exactly sizes[i] samples of dataset i; sample for
/// sample Megatron's.
BlendIndex build_exhaustive_blend_index(
    std::span<const std::int64_t> sizes,
    BlendRounding rounding);

} // namespace cairn::data
