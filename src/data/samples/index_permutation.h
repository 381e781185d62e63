#pragma once

#include <cairn/base/counter_random.h>

#include <cstdint>

namespace cairn::data {

/// The numbers 0 to size - 1 in random order. Each is computed by itself,
/// without memory or start-up time, however many there are. The order depends
/// on (seed, epoch, size) alone.
///
/// A Feistel network over the next even number of bits is applied repeatedly
/// until the result is below size.
class IndexPermutation {
 public:
  IndexPermutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size);

  std::uint64_t size() const noexcept { return size_; }
  /// The number at `position`, which must be below size().
  std::uint64_t operator()(std::uint64_t position) const;

 private:
  static constexpr std::uint64_t rounds = 8;

  CounterRandom random_;
  std::uint64_t size_;
  std::uint64_t half_bits_;
};

} // namespace cairn::data
