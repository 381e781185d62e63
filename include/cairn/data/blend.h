#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::data {

/// Datasets to be mixed, as --data-path gives them: `A`, `A B C`, or weights
/// and prefixes in turn, `0.3 A 0.7 B`. Without weights datasets count by
/// their size.
struct Blend {
  std::vector<std::string> prefixes;
  std::optional<std::vector<double>> weights{}; ///< as given, not normalized

  /// Each word may itself hold several, separated by spaces, so that a quoted
  /// list works as well. Throws ConfigError.
  static Blend parse(std::span<const std::string> words);
  bool operator==(const Blend&) const = default;
};

/// The number of samples wanted of a split; none: what one epoch gives.
using SampleCount = std::optional<std::int64_t>;
using SampleCounts = std::array<SampleCount, 3>; ///< by Split

/// Divided by their sum, in numpy's order of summation.
std::vector<double> normalized(std::span<const double> weights);

/// Samples to take of a dataset with this (normalized) weight, with some
/// surplus: rounded up twice, as Megatron does.
std::int64_t share_of_samples(
    std::int64_t samples,
    double weight,
    double surplus);
/// Rounded up once, as Megatron-DeepSpeed does.
std::int64_t deepspeed_share_of_samples(
    std::int64_t samples,
    double weight,
    double surplus);

} // namespace cairn::data
