#include "base/internal/crc32c.h"
#include "base/internal/cpu.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string_view>
#include <vector>

#include "base/crc32c_kernel.h"

namespace cairn::crc32c_test {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

/// The checksum from its definition, bit by bit.
std::uint32_t by_definition(std::span<const std::byte> bytes) {
  std::uint32_t state = 0xffffffff;
  for (const std::byte byte : bytes) {
    state ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78U : 0U);
    }
  }
  return ~state;
}

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937 random(static_cast<std::uint32_t>(count));
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random() & 0xff);
  }
  return bytes;
}

TEST(Crc32c, Rfc3720) {
  std::vector<std::byte> ascending(32);
  std::vector<std::byte> descending(32);
  for (int i = 0; i < 32; ++i) {
    ascending[static_cast<std::size_t>(i)] = static_cast<std::byte>(i);
    descending[static_cast<std::size_t>(i)] = static_cast<std::byte>(31 - i);
  }
  const auto command =
      bytes_of({0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
                0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
                0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0});
  EXPECT_EQ(crc32c(std::vector<std::byte>(32)), 0x8a9136aa);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43);
  EXPECT_EQ(crc32c(ascending), 0x46dd794e);
  EXPECT_EQ(crc32c(descending), 0x113fdb5c);
  EXPECT_EQ(crc32c(command), 0xd9963a56);
  constexpr std::string_view digits = "123456789";
  EXPECT_EQ(crc32c(std::as_bytes(std::span(digits))), 0xe3069283);
  EXPECT_EQ(crc32c({}), 0);
}

struct Kernels {
  decltype(&crc32c_detail::sliced) sum;
  decltype(&crc32c_detail::sliced_copy) copy;
};

/// All kernels that this CPU can run.
std::vector<Kernels> all_kernels() {
  std::vector<Kernels> all{
      {crc32c_detail::sliced, crc32c_detail::sliced_copy},
      {crc32c_detail::hardware, crc32c_detail::hardware_copy}};
#if defined(__aarch64__)
  if (CpuFeatures::detect().pmull) {
    all.push_back({crc32c_detail::folded, crc32c_detail::folded_copy});
  }
#endif
  return all;
}

TEST(Crc32c, EveryKernelAgreesAtEveryLengthAndAlignment) {
  ASSERT_TRUE(CpuFeatures::detect().crc32c)
      << "the hardware kernel cannot be tested on this CPU";
  const auto bytes = random_bytes(60000);
  const auto check = [&](std::size_t offset, std::size_t size) {
    const auto part = std::span(bytes).subspan(offset, size);
    const std::uint32_t expected = by_definition(part);
    ASSERT_EQ(crc32c(part), expected) << offset << ' ' << size;
    for (const auto& [sum, copy] : all_kernels()) {
      ASSERT_EQ(~sum(~0U, part.data(), part.size()), expected)
          << offset << ' ' << size;
      // A byte more on either side must stay.
      std::vector<std::byte> to(part.size() + 2, std::byte{0x5a});
      ASSERT_EQ(~copy(~0U, to.data() + 1, part.data(), part.size()), expected)
          << offset << ' ' << size;
      ASSERT_TRUE(
          std::ranges::equal(part, std::span(to).subspan(1, part.size())));
      ASSERT_EQ(to.front(), std::byte{0x5a});
      ASSERT_EQ(to.back(), std::byte{0x5a});
    }
  };
  for (std::size_t size = 0; size < 420; ++size) {
    check(size % 9, size);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const std::size_t offset = random() % 64;
    check(offset, random() % (bytes.size() - offset));
  }
  // Sizes around the strides of the interleaved loops.
  for (const std::size_t size : {128U, 384U, 1536U, 12288U, 24576U}) {
    for (std::size_t offset = 0; offset < 8; ++offset) {
      check(offset, size - 1);
      check(offset, size);
      check(offset, size + 1);
    }
  }
}

TEST(Crc32c, PiecesGiveTheWhole) {
  const auto bytes = random_bytes(30000);
  const std::uint32_t whole = crc32c(bytes);
  for (const std::size_t cut : {0U, 1U, 7U, 8U, 4096U, 29999U, 30000U}) {
    const auto first = std::span(bytes).first(cut);
    const auto second = std::span(bytes).subspan(cut);
    EXPECT_EQ(crc32c(second, crc32c(first)), whole) << cut;
    std::vector<std::byte> copy(bytes.size());
    EXPECT_EQ(
        crc32c_copy(copy.data() + cut, second, crc32c_copy(copy.data(), first)),
        whole)
        << cut;
    EXPECT_EQ(copy, bytes);
    EXPECT_EQ(
        crc32c_combine(crc32c(first), crc32c(second), second.size()),
        whole)
        << cut;
  }
}

TEST(Crc32c, CombinesStretchesLongerThanMemory) {
  // The sum of a and 2^40 zeros, in one step and in two.
  const std::uint32_t a = crc32c(random_bytes(100));
  const auto zeros = [](int doublings) {
    std::uint32_t sum = crc32c(std::vector<std::byte>(1));
    for (int i = 0; i < doublings; ++i) {
      sum = crc32c_combine(sum, sum, std::uint64_t{1} << i);
    }
    return sum;
  };
  const std::uint64_t half = std::uint64_t{1} << 39;
  EXPECT_EQ(
      crc32c_combine(a, zeros(40), 2 * half),
      crc32c_combine(crc32c_combine(a, zeros(39), half), zeros(39), half));
}

TEST(Crc32c, SeesEveryFlippedBit) {
  auto bytes = random_bytes(500);
  const std::uint32_t right = crc32c(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const std::byte flip{static_cast<unsigned char>(1U << (bit % 8))};
    bytes[bit / 8] ^= flip;
    ASSERT_NE(crc32c(bytes), right) << bit;
    bytes[bit / 8] ^= flip;
  }
}

} // namespace
} // namespace cairn::crc32c_test
