#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::data {

/// For every sample of a blend its dataset, and which sample of that one: at
/// any point each dataset has had its share, as nearly as can be.
struct BlendIndex {
  std::vector<std::int16_t> datasets;
  std::vector<std::int64_t> samples;
  bool operator==(const BlendIndex&) const = default;
};

/// How far a dataset is behind is weight * samples - taken, and ties are common
/// (0.1, 0.2, 0.3, 0.4), so the last bit decides. Megatron leaves that to its
/// compiler, which rounds once on Arm and twice on x86-64: its blends differ
/// between the two.
enum class BlendRounding {
  once, ///< as on Arm
  twice ///< as on x86-64
};

/// What Megatron does on machines like this one.
BlendRounding native_blend_rounding();

/// `size` samples by (normalized) weights; sample for sample Megatron's.
BlendIndex build_blend_index(
    std::span<const double> weights,
    std::size_t size,
    BlendRounding rounding);

/// Exactly sizes[i] samples of dataset i; sample for sample Megatron's.
BlendIndex build_exhaustive_blend_index(
    std::span<const std::int64_t> sizes,
    BlendRounding rounding);

} // namespace cairn::data
