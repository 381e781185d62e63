#pragma once

#include <cairn/base/counter_random.h>

#include <cstdint>

namespace cairn::data {

/// The draws of one sample, one after another. They depend on the stream and
/// the sample alone, so it does not matter who reads it, when, or what else.
class SampleRandom {
 public:
  SampleRandom(const CounterRandom& stream, std::uint64_t sample)
      : stream_(stream), next_(sample << draw_bits) {}

  /// In [0, 1).
  double uniform() { return stream_.uniform(next_++); }

  /// In [0, bound), which must not be 0.
  std::uint64_t below(std::uint64_t bound) {
    return stream_.below(bound, next_++);
  }

 private:
  /// 16 million draws for each of a trillion samples.
  static constexpr int draw_bits = 24;

  const CounterRandom& stream_;
  std::uint64_t next_;
};

} // namespace cairn::data
