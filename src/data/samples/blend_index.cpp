#include "data/samples/blend_index.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace cairn::data {
namespace {

/// Decides which dataset gives the next sample, and counts the samples taken.
class Turns {
 public:
  Turns(std::span<const double> weights, BlendRounding rounding)
      : weights_(weights), rounding_(rounding), taken_(weights.size(), 0) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] > 0.0) {
        candidates_.push_back(i);
      }
    }
  }

  std::size_t next(std::size_t position) const {
    const double expected = position == 0 ? 1.0 : static_cast<double>(position);
    return rounding_ == BlendRounding::once
        ? furthest_behind([&](std::size_t i) {
            return std::fma(weights_[i], expected, -taken(i));
          })
        : furthest_behind([&](std::size_t i) {
            // This file is compiled without fused multiply-add.
            return weights_[i] * expected - taken(i);
          });
  }

  /// Takes a sample from a dataset and returns its index there.
  std::int64_t take(std::size_t dataset) { return taken_[dataset]++; }
  void retire(std::size_t dataset) { std::erase(candidates_, dataset); }

 private:
  double taken(std::size_t i) const { return static_cast<double>(taken_[i]); }

  template <typename Behind>
  std::size_t furthest_behind(Behind&& behind) const {
    std::size_t furthest = candidates_.front();
    double largest = std::numeric_limits<double>::lowest();
    for (const std::size_t i : candidates_) {
      if (const double here = behind(i); here > largest) {
        largest = here;
        furthest = i;
      }
    }
    return furthest;
  }

  std::span<const double> weights_;
  BlendRounding rounding_;
  std::vector<std::int64_t> taken_;
  std::vector<std::size_t> candidates_;
};

BlendIndex index_of_size(std::size_t size) {
  return {std::vector<std::int16_t>(size), std::vector<std::int64_t>(size)};
}

} // namespace

BlendRounding native_blend_rounding() {
#if defined(__aarch64__)
  return BlendRounding::once;
#else
  return BlendRounding::twice;
#endif
}

BlendIndex build_blend_index(
    std::span<const double> weights,
    std::size_t size,
    BlendRounding rounding) {
  BlendIndex index = index_of_size(size);
  Turns turns(weights, rounding);
  for (std::size_t k = 0; k < size; ++k) {
    const std::size_t i = turns.next(k);
    index.datasets[k] = static_cast<std::int16_t>(i);
    index.samples[k] = turns.take(i);
  }
  return index;
}

BlendIndex build_exhaustive_blend_index(
    std::span<const std::int64_t> sizes,
    BlendRounding rounding) {
  const auto total =
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  std::vector<double> weights;
  for (const std::int64_t size : sizes) {
    weights.push_back(static_cast<double>(size) / static_cast<double>(total));
  }
  BlendIndex index = index_of_size(static_cast<std::size_t>(total));
  Turns turns(weights, rounding);
  for (std::size_t k = 0; k < index.datasets.size(); ++k) {
    const std::size_t i = turns.next(k);
    index.datasets[k] = static_cast<std::int16_t>(i);
    index.samples[k] = turns.take(i);
    if (index.samples[k] + 1 == sizes[i]) {
      turns.retire(i);
    }
  }
  return index;
}

} // namespace cairn::data
