#include <cairn/base/counter_random.h>

#include <cairn/base/error.h>

#include "base/exact_math.h"
#include "base/internal/philox.h"
#include "base/internal/stable_hash.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace cairn::inline base {
namespace {

double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

float unit_interval(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24F;
}

struct TwoNormals {
  double values[2];
};

TwoNormals two_normals(const Philox4x32& random) {
  // 1 - [0, 1) is (0, 1]: the logarithm of zero cannot happen.
  const double u = 1.0 - unit_interval(random.pair(0));
  const double radius = std::sqrt(-2.0 * exact_math::log(u));
  const auto [sine, cosine] =
      exact_math::sine_cosine_of_turn(unit_interval(random.pair(1)));
  return {{radius * cosine, radius * sine}};
}

} // namespace

CounterRandom::CounterRandom(std::uint64_t seed, std::string_view stream)
    : seed_(seed), stream_(stable_hash(stream)) {}

std::uint32_t CounterRandom::bits(std::uint64_t index) const {
  return Philox4x32::at(index / 4, stream_, seed_).words[index % 4];
}

float CounterRandom::uniform_float(std::uint64_t index) const {
  return unit_interval(bits(index));
}

double CounterRandom::uniform(std::uint64_t index) const {
  const Philox4x32 random = Philox4x32::at(index / 2, stream_, seed_);
  return unit_interval(random.pair(index % 2));
}

double CounterRandom::normal(std::uint64_t index) const {
  const Philox4x32 random = Philox4x32::at(index / 2, stream_, seed_);
  return two_normals(random).values[index % 2];
}

std::uint64_t CounterRandom::below(std::uint64_t bound, std::uint64_t index)
    const {
  if (bound == 0) {
    throw InternalError({.what = "a random number below 0 was asked for"});
  }
  const Philox4x32 random = Philox4x32::at(index / 2, stream_, seed_);
  const auto product =
      static_cast<unsigned __int128>(random.pair(index % 2)) * bound;
  return static_cast<std::uint64_t>(product >> 64);
}

void CounterRandom::fill_uniform(std::uint64_t first, std::span<float> out)
    const {
  Philox4x32 random = Philox4x32::at(first / 4, stream_, seed_);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t index = first + i;
    if (index % 4 == 0) {
      random = Philox4x32::at(index / 4, stream_, seed_);
    }
    out[i] = unit_interval(random.words[index % 4]);
  }
}

void CounterRandom::fill_normal(std::uint64_t first, std::span<float> out)
    const {
  // Works in stages over a block, so that the compiler can vectorise each
  // stage. This changes no result.
  constexpr std::size_t block = 64;
  std::array<double, block> u;
  std::array<double, block> turn;
  std::array<float, 2 * block> normals;
  std::size_t done = 0;
  while (done < out.size()) {
    const std::uint64_t pair = (first + done) / 2;
    const std::size_t skipped = (first + done) % 2;
    const std::size_t count = std::min(2 * block - skipped, out.size() - done);
    const std::size_t pairs = (skipped + count + 1) / 2;
    for (std::size_t i = 0; i < pairs; ++i) {
      const Philox4x32 random = Philox4x32::at(pair + i, stream_, seed_);
      u[i] = 1.0 - unit_interval(random.pair(0));
      turn[i] = unit_interval(random.pair(1));
    }
    for (std::size_t i = 0; i < pairs; ++i) {
      u[i] = std::sqrt(-2.0 * exact_math::log(u[i]));
    }
    for (std::size_t i = 0; i < pairs; ++i) {
      const auto [sine, cosine] = exact_math::sine_cosine_of_turn(turn[i]);
      normals[2 * i] = static_cast<float>(u[i] * cosine);
      normals[2 * i + 1] = static_cast<float>(u[i] * sine);
    }
    std::copy_n(normals.begin() + skipped, count, out.begin() + done);
    done += count;
  }
}

} // namespace cairn::base
