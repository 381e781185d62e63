// Weights and states of an optimizer in 16 bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/formulas.h"
#include "kernels/internal/cpu/cpu.h"
#include "kernels/narrow_states.h"

namespace cairn::kernels::narrow_states_test {
namespace {

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

TEST(NarrowStates, HalvesOfAWeightAreTheWeight) {
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto bits = quiet(static_cast<std::uint32_t>(random()));
    ASSERT_EQ(joined(upper_half(bits), remainder(bits)), bits);
    const float value = std::bit_cast<float>(bits);
    // The largest numbers become infinite, as in any bf16.
    if (std::isnormal(value) && std::abs(value) < 3.3e38F) {
      const float near = from_bf16(upper_half(bits));
      ASSERT_LE(std::abs(near - value), std::abs(value) / 256) << value;
    }
  }
  for (const float value : {0.F, -0.F, INFINITY, -INFINITY, NAN, 1e-45F}) {
    const auto bits = quiet(std::bit_cast<std::uint32_t>(value));
    EXPECT_EQ(joined(upper_half(bits), remainder(bits)), bits);
    if (!std::isfinite(value) || value == 0) {
      EXPECT_EQ(static_cast<std::uint32_t>(upper_half(bits)) << 16U, bits);
    }
  }
}

TEST(NarrowStates, RoundingByChanceIsRightOnAverage) {
  for (const float value : {1.0001F, -3.01F, 1e-8F, 5e-40F}) {
    double sum = 0;
    constexpr int draws = 100'000;
    for (int i = 0; i < draws; ++i) {
      sum += static_cast<double>(from_bf16(rounded_by_chance(
          std::bit_cast<std::uint32_t>(value),
          key_of_state(static_cast<std::uint32_t>(i), 0))));
    }
    EXPECT_NEAR(sum / draws / static_cast<double>(value), 1, 1e-4) << value;
  }
  for (const float value : {0.F, 1.F, -0.5F, INFINITY, -INFINITY}) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    EXPECT_EQ(
        static_cast<std::uint32_t>(rounded_by_chance(bits, 99)) << 16U,
        bits);
  }
  EXPECT_TRUE(std::isnan(from_bf16(rounded_by_chance(0x7f800001U, 3))));
}

/// Trains weights towards a target that only noisy gradients tell; returns the
/// mean squared distance at the end.
class Training {
 public:
  explicit Training(std::size_t size) : size_(size) {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    for (std::size_t i = 0; i < size; ++i) {
      target_.push_back(normal(random));
    }
  }

  double run(bool narrow, double beta2, int steps) const {
    std::vector<float> weights(size_);
    std::vector<float> first(size_);
    std::vector<float> second(size_);
    std::vector<float> gradients(size_);
    std::vector<std::uint16_t> copy(size_);
    std::vector<std::uint16_t> remainders(size_);
    std::vector<std::uint16_t> narrow_first(size_);
    std::vector<std::uint16_t> narrow_second(size_);
    std::mt19937 random(3);
    std::normal_distribution<float> noise(0, 0.3F);
    for (int step = 1; step <= steps; ++step) {
      for (std::size_t i = 0; i < size_; ++i) {
        gradients[i] = from_bf16(copy[i]) - target_[i] + noise(random);
      }
      Adam<true> formula;
      formula.one_minus_beta1 = 0.1F;
      formula.one_minus_beta2 = static_cast<float>(1 - beta2);
      formula.root_factor =
          static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, step)));
      formula.eps = 1e-8F;
      formula.step_size = static_cast<float>(
          0.02 * (1 - static_cast<double>(step) / (steps + 1)) /
          (1 - std::pow(0.9, step)));
      Stretch stretch{
          .gradients = gradients.data(),
          .copy = copy.data(),
          .count = static_cast<std::int64_t>(size_)};
      if (narrow) {
        stretch.narrow = {
            .remainders = remainders.data(),
            .states = {narrow_first.data(), narrow_second.data()},
            .key = static_cast<std::uint32_t>(step)};
      } else {
        stretch.weights = weights.data();
        stretch.states = {first.data(), second.data()};
      }
      cpu::update(stretch, formula);
    }
    double sum = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      sum += std::pow(static_cast<double>(from_bf16(copy[i]) - target_[i]), 2);
    }
    return sum / static_cast<double>(size_);
  }

 private:
  std::size_t size_;
  std::vector<float> target_;
};

TEST(NarrowStates, TrainLikeWideOnes) {
  const Training training(1500); // no multiple of a tile
  for (const double beta2 : {0.95, 0.999}) {
    const double wide = training.run(false, beta2, 1500);
    EXPECT_LT(wide, 0.01);
    EXPECT_NEAR(training.run(true, beta2, 1500), wide, 0.02 * wide) << beta2;
  }
}

TEST(NarrowStates, AnySplitGivesTheSameBits) {
  constexpr std::size_t size = 5000;
  const auto run = [&](const std::vector<std::int64_t>& cuts) {
    std::vector<std::uint16_t> all(4 * size);
    std::mt19937 random(4);
    for (std::uint16_t& each : all) {
      each = static_cast<std::uint16_t>(random() % 0x3f80);
    }
    std::vector<float> gradients(size, 0.1F);
    const Stretch stretch{
        .gradients = gradients.data(),
        .copy = all.data(),
        .narrow =
            {.remainders = all.data() + size,
             .states = {all.data() + 2 * size, all.data() + 3 * size},
             .key = 3},
        .count = size};
    Adam<true> formula;
    formula.step_size = 0.01F;
    formula.one_minus_beta1 = 0.1F;
    formula.one_minus_beta2 = 0.01F;
    formula.eps = 1e-8F;
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      cpu::update(part_of(stretch, cuts[i], cuts[i + 1] - cuts[i]), formula);
    }
    return all;
  };
  EXPECT_EQ(run({0, 5000}), run({0, 1, 1025, 3000, 5000}));
}

} // namespace
} // namespace cairn::kernels::narrow_states_test
