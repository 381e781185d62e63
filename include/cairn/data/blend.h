#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::data {

/// Datasets to be mixed, as --data-path gives them: `A`, `A B C`, or weights
/// and prefixes in turn, `0.3 A 0.7 B`. Without weights, datasets are weighted
/// by their size.
struct Blend {
  std::vector<std::string> prefixes;
  std::optional<std::vector<double>> weights{}; ///< as given, not normalized

  /// Parses the words of --data-path. A word may itself hold several, separated
  /// by spaces, so that a quoted list works too. Throws ConfigError.
  static Blend parse(std::span<const std::string> words);
  bool operator==(const Blend&) const = default;
};

/// The number of samples wanted from a split; empty: those of one epoch.
using SampleCount = std::optional<std::int64_t>;
using SampleCounts = std::array<SampleCount, 3>; ///< by Split

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

/// The weights divided by their sum, which is taken in numpy's order.
std::vector<double> normalized(std::span<const double> weights);

/// The number of samples to take from a dataset with this (normalized) weight,
/// with some surplus: rounded up twice, as Megatron does.
std::int64_t share_of_samples(
    std::int64_t samples,
    double weight,
    double surplus);
/// The number of samples as Megatron-DeepSpeed computes it: rounded up once.
std::int64_t deepspeed_share_of_samples(
    std::int64_t samples,
    double weight,
    double surplus);

} // namespace cairn::data
