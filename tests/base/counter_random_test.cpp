#include "base/internal/crc32c.h"
#include "base/internal/philox.h"
#include "base/internal/stable_hash.h"

#include <cairn/base/counter_random.h>

#include <cairn/base/error.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace cairn::counter_random_test {
namespace {

const CounterRandom& weights() {
  static const CounterRandom random(1234, "decoder.layers.0.mlp.weight");
  return random;
}

TEST(CounterRandom, IsPhiloxOfIndexStreamAndSeed) {
  const auto block =
      Philox4x32::at(5, stable_hash("decoder.layers.0.mlp.weight"), 1234);
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(weights().bits(20 + i), block.words[i]);
    EXPECT_EQ(
        weights().uniform_float(20 + i),
        static_cast<float>(block.words[i] >> 8) / 16777216.0F);
  }
  EXPECT_EQ(
      weights().uniform(11),
      static_cast<double>(block.pair(1) >> 11) / 9007199254740992.0);
}

TEST(CounterRandom, SeedAndStreamBothCount) {
  const CounterRandom same(1234, "decoder.layers.0.mlp.weight");
  const CounterRandom other_seed(1235, "decoder.layers.0.mlp.weight");
  const CounterRandom other_stream(1234, "decoder.layers.1.mlp.weight");
  EXPECT_EQ(weights().bits(0), same.bits(0));
  EXPECT_NE(weights().bits(0), other_seed.bits(0));
  EXPECT_NE(weights().bits(0), other_stream.bits(0));
}

// These bits are a promise: initial weights, and so whole runs, depend on them.
TEST(CounterRandom, NumbersNeverChange) {
  EXPECT_EQ(weights().bits(0), 0x4d5f0b4c);
  EXPECT_EQ(weights().uniform_float(1), 0x1.53e2cp-4F);
  EXPECT_EQ(weights().uniform(1ULL << 40), 0x1.eb87500be5272p-2);
  EXPECT_EQ(weights().normal(0), 0x1.0913b240c36ccp-2);
  EXPECT_EQ(weights().normal(1), -0x1.4dc4f2ed54defp-2);
  EXPECT_EQ(weights().below(50304, 7), 41182);
  // Draws many at once, so that a rare unlucky rounding shows.
  std::vector<double> normals(200000);
  for (std::size_t i = 0; i < normals.size(); ++i) {
    normals[i] = weights().normal(i);
  }
  EXPECT_EQ(crc32c(std::as_bytes(std::span(normals))), 0x9743407c);
}

TEST(CounterRandom, NormalIsBoxMuller) {
  long double worst = 0;
  for (std::uint64_t i = 0; i < 20000; i += 2) {
    const long double u = 1.0L - weights().uniform(i);
    const long double angle =
        2 * std::numbers::pi_v<long double> * weights().uniform(i + 1);
    const long double radius = std::sqrt(-2 * std::log(u));
    const std::array<long double, 2> expected = {
        radius * std::cos(angle),
        radius * std::sin(angle)};
    for (std::uint64_t k = 0; k < 2; ++k) {
      const long double error = std::abs(weights().normal(i + k) - expected[k]);
      worst = std::max(worst, error / std::max(std::abs(expected[k]), 1e-3L));
    }
  }
  EXPECT_LT(worst, 1e-15L);
}

TEST(CounterRandom, NormalHasItsMoments) {
  constexpr std::uint64_t count = 400000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  double next_to = 0;
  double last = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = weights().normal(i);
    ASSERT_LT(std::abs(x), 8.6);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    next_to += x * last;
    last = x;
  }
  // The tolerances are four standard errors each.
  const double root = std::sqrt(static_cast<double>(count));
  EXPECT_NEAR(sum / count, 0.0, 4 / root);
  EXPECT_NEAR(squares / count, 1.0, 4 * std::sqrt(2.0) / root);
  EXPECT_NEAR(fourth / count, 3.0, 4 * std::sqrt(96.0) / root);
  EXPECT_NEAR(next_to / count, 0.0, 4 / root);
}

TEST(CounterRandom, UniformFillsItsInterval) {
  std::array<int, 16> floats{};
  std::array<int, 16> doubles{};
  constexpr int count = 160000;
  for (int i = 0; i < count; ++i) {
    const auto index = static_cast<std::uint64_t>(i);
    ++floats.at(static_cast<std::size_t>(weights().uniform_float(index) * 16));
    ++doubles.at(static_cast<std::size_t>(weights().uniform(index) * 16));
  }
  for (std::size_t k = 0; k < 16; ++k) {
    EXPECT_NEAR(floats[k], 10000, 400) << k;
    EXPECT_NEAR(doubles[k], 10000, 400) << k;
  }
}

TEST(CounterRandom, BelowStaysBelow) {
  std::array<int, 10> counts{};
  for (std::uint64_t i = 0; i < 100000; ++i) {
    ++counts.at(weights().below(10, i));
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 10000, 400);
  }
  EXPECT_EQ(weights().below(1, 3), 0);
  EXPECT_GT(weights().below(UINT64_MAX, 3), 0);
  EXPECT_THROW(weights().below(0, 3), InternalError);
}

TEST(CounterRandom, ASliceIsAPartOfTheWhole) {
  std::vector<float> normals(1001);
  std::vector<float> uniforms(1001);
  weights().fill_normal(0, normals);
  weights().fill_uniform(0, uniforms);
  for (std::size_t i = 0; i < normals.size(); ++i) {
    ASSERT_EQ(normals[i], static_cast<float>(weights().normal(i))) << i;
    ASSERT_EQ(uniforms[i], weights().uniform_float(i)) << i;
  }
  for (std::size_t first = 0; first < 9; ++first) {
    for (std::size_t size = 0; size < 9; ++size) {
      std::vector<float> slice(size);
      weights().fill_normal(first, slice);
      ASSERT_TRUE(std::equal(
          slice.begin(),
          slice.end(),
          normals.begin() + static_cast<long>(first)));
      weights().fill_uniform(first, slice);
      ASSERT_TRUE(std::equal(
          slice.begin(),
          slice.end(),
          uniforms.begin() + static_cast<long>(first)));
    }
  }
}

} // namespace
} // namespace cairn::counter_random_test
