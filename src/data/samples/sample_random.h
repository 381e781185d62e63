#pragma once

#include <cairn/base/counter_random.h>

#include <cstdint>

namespace cairn::data {

/// The random draws of one sample, one after another. They depend on the stream
/// and the sample alone, so it does not matter which thread reads the sample,
/// when, or what else is read.
class SampleRandom {
 public:
  SampleRandom(const CounterRandom& stream, std::uint64_t sample)
      : stream_(stream), next_(sample << draw_bits) {}

  /// Uniform in [0, 1).
  double uniform() { return stream_.uniform(next_++); }

  /// Uniform in [0, bound); `bound` must not be 0.
  std::uint64_t below(std::uint64_t bound) {
    return stream_.below(bound, next_++);
  }

 private:
  /// Bits for the draws of a sample: 16 million draws for each of a trillion
  /// samples.
  static constexpr int draw_bits = 24;

  const CounterRandom& stream_;
  std::uint64_t next_;
};

} // namespace cairn::data
