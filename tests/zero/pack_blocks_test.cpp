#include "kernels/internal/cpu/pack_blocks.h"
#include "kernels/internal/cpu/cpu.h"
#include "zero/reduce/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

namespace cairn::zero::pack_blocks_test {
namespace {

using kernels::Element;
using kernels::PackedBlocks;

/// Blocks of very different sizes, the last one not full.
std::vector<float> numbers(std::int64_t count) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] =
        normal(random) * std::pow(10.0F, static_cast<float>(i / 256 % 9) - 5);
  }
  return values;
}

std::vector<float> there_and_back(
    const PackedBlocks& plan,
    const std::vector<float>& values) {
  std::vector<std::byte> packed(static_cast<std::size_t>(plan.bytes()));
  kernels::cpu::pack_blocks(
      plan,
      values.data(),
      Element::fp32,
      packed.data(),
      0,
      plan.blocks());
  std::vector<float> back(values.size());
  kernels::cpu::unpack_blocks(
      plan,
      packed.data(),
      back.data(),
      Element::fp32,
      0,
      plan.blocks());
  return back;
}

TEST(PackBlocks, ErrorIsAtMostHalfAScale) {
  for (const Wire wire : {Wire::int8, Wire::int4}) {
    const PackedBlocks plan = blocks_of(wire, 256 * 40 + 64);
    const std::vector<float> values = numbers(plan.count);
    const std::vector<float> back = there_and_back(plan, values);
    for (std::int64_t block = 0; block < plan.blocks(); ++block) {
      const auto first = static_cast<std::size_t>(block * plan.block);
      const auto last = first + static_cast<std::size_t>(plan.size_of(block));
      float largest = 0;
      float worst = 0;
      for (std::size_t i = first; i < last; ++i) {
        largest = std::max(largest, std::abs(values[i]));
        worst = std::max(worst, std::abs(values[i] - back[i]));
      }
      const float bound = largest / static_cast<float>(2 * plan.most());
      EXPECT_LE(worst, bound * (1 + 1e-4F)) << "block " << block;
      EXPECT_GT(worst, 0.2F * bound) << "block " << block;
    }
  }
}

TEST(PackBlocks, TakesWhatItSays) {
  EXPECT_EQ(wire_bytes(Wire::exact, 1000, 2), 2000);
  EXPECT_EQ(wire_bytes(Wire::int8, 1024, 2), 1024 + 4 * 4);
  EXPECT_EQ(wire_bytes(Wire::int8, 1024 + 64, 2), 1024 + 64 + 5 * 4);
  EXPECT_EQ(wire_bytes(Wire::int4, 1024, 2), 512 + 8 * 4);
}

TEST(PackBlocks, ZerosStayAndTinyBlocksBecomeThem) {
  for (const Wire wire : {Wire::int8, Wire::int4}) {
    std::vector<float> values(300, 0.0F);
    values[290] = -3e-39F; // a denormal, in the last block
    const std::vector<float> back =
        there_and_back(blocks_of(wire, 300), values);
    EXPECT_EQ(back, std::vector<float>(300, 0.0F));
  }
}

/// An overflow must reach the norm: the step is then skipped.
TEST(PackBlocks, InfAndNanSpoilTheirBlockOnly) {
  for (const Wire wire : {Wire::int8, Wire::int4}) {
    for (const float bad :
         {std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> values(512, 1.0F);
      values[3] = bad;
      const std::vector<float> back =
          there_and_back(blocks_of(wire, 512), values);
      EXPECT_TRUE(std::isnan(back[0]));
      EXPECT_TRUE(std::isnan(back[3]));
      EXPECT_FLOAT_EQ(back[500], 1.0F);
    }
  }
}

TEST(PackBlocks, SumsAndSixteenBits) {
  const PackedBlocks plan = blocks_of(Wire::int4, 192);
  const std::vector<float> values = numbers(plan.count);
  const std::vector<float> back = there_and_back(plan, values);
  std::vector<std::byte> packed(static_cast<std::size_t>(plan.bytes()));
  kernels::cpu::pack_blocks(
      plan,
      values.data(),
      Element::fp32,
      packed.data(),
      0,
      plan.blocks());
  std::vector<float> sums(values.size(), 2.0F);
  kernels::cpu::add_blocks(plan, packed.data(), sums.data(), 0, plan.blocks());
  std::vector<std::uint16_t> narrow(values.size());
  kernels::cpu::unpack_blocks(
      plan,
      packed.data(),
      narrow.data(),
      Element::bf16,
      0,
      plan.blocks());
  std::vector<float> wide(values.size());
  kernels::cpu::convert(
      narrow.data(),
      Element::bf16,
      wide.data(),
      Element::fp32,
      plan.count);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(sums[i], 2.0F + back[i]);
    EXPECT_NEAR(wide[i], back[i], std::abs(back[i]) / 200);
  }
}

} // namespace
} // namespace cairn::zero::pack_blocks_test
