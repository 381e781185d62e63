#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::data {

/// For every sample of a blend, the dataset it comes from and the sample's
/// index in it. At any point each dataset has had its share, as nearly as
/// possible.
struct BlendIndex {
  std::vector<std::int16_t> datasets;
  std::vector<std::int64_t> samples;
  bool operator==(const BlendIndex&) const = default;
};

/// Rounding of weight * samples - taken, the number of samples by which a
/// dataset is behind. Ties are common (0.1, 0.2, 0.3, 0.4), so the last bit
/// decides. Megatron leaves the rounding to its compiler, which rounds once on
/// Arm and twice on x86-64, so its blends differ between the two.
enum class BlendRounding {
  once, ///< as on Arm
  twice ///< as on x86-64
};

/// The rounding of Megatron on machines like this one.
BlendRounding native_blend_rounding();

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
