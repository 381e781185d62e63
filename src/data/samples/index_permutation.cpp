#include "data/samples/index_permutation.h"

#include <algorithm>
#include <bit>

namespace cairn::data {

IndexPermutation::IndexPermutation(
    std::uint64_t seed,
    std::uint64_t epoch,
    std::uint64_t size)
    : random_(
          // Epochs are far apart in the seed, so that seed + 1 does not give
          // the next epoch.
          seed ^ (epoch * 0x9e3779b97f4a7c15),
          "order of samples"),
      size_(size),
      half_bits_(std::max<std::uint64_t>(
          1,
          (std::bit_width(size == 0 ? 0 : size - 1) + 1) / 2)) {}

std::uint64_t IndexPermutation::operator()(std::uint64_t position) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t value = position;
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::uint64_t mixed =
          left ^ (random_.bits((round << 32) | right) & mask);
      left = right;
      right = mixed;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return value;
}

} // namespace cairn::data
