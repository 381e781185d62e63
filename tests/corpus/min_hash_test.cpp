#include "corpus/clean/min_hash.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace cairn::corpus::min_hash_test {
namespace {

TEST(MinHash, ShinglesAreDistinctPiecesOfFiveCharacters) {
  EXPECT_TRUE(shingles_of("abcd").empty());
  EXPECT_EQ(shingles_of("abcde").size(), 1U);
  EXPECT_EQ(shingles_of("aaaaaaaa").size(), 1U);
  EXPECT_EQ(shingles_of("abcdefg").size(), 3U);
  EXPECT_EQ(shingles_of("äöüßé").size(), 1U); // characters, not bytes
}

TEST(MinHash, Similarity) {
  const auto a = shingles_of("abcdefgh");  // 4 pieces
  const auto b = shingles_of("abcdefXYZ"); // 5, two of them shared
  EXPECT_DOUBLE_EQ(similarity(a, b, Similarity::union_), 2.0 / 7);
  EXPECT_DOUBLE_EQ(similarity(a, b, Similarity::min), 2.0 / 4);
  EXPECT_DOUBLE_EQ(similarity(a, b, Similarity::max), 2.0 / 5);
  EXPECT_DOUBLE_EQ(similarity(a, a, Similarity::union_), 1);
  EXPECT_DOUBLE_EQ(similarity(a, {}, Similarity::union_), 0);
}

/// Two sets with a given Jaccard similarity, drawn at random.
std::pair<std::vector<std::uint64_t>, std::vector<std::uint64_t>> two_sets(
    std::mt19937_64& random,
    std::size_t size,
    double alike) {
  // |A n B| / |A u B| = s with |A| = |B| = n: shared = 2 n s / (1 + s)
  const auto shared = static_cast<std::size_t>(
      std::lround(2 * static_cast<double>(size) * alike / (1 + alike)));
  std::vector<std::uint64_t> a;
  for (std::size_t i = 0; i < size; ++i) {
    a.push_back(random());
  }
  std::vector<std::uint64_t> b(a.begin(), a.begin() + std::ptrdiff_t(shared));
  while (b.size() < size) {
    b.push_back(random());
  }
  return {a, b};
}

TEST(MinHash, BandsAgreeAsOftenAsTheorySays) {
  std::mt19937_64 random(1);
  for (const std::size_t size : {500, 3000}) {
    for (const double alike : {0.6, 0.8, 0.9}) {
      constexpr int pairs = 600;
      int agreeing = 0;
      for (int i = 0; i < pairs; ++i) {
        const auto [a, b] = two_sets(random, size, alike);
        const auto x = band_hashes(a, 100, 10);
        const auto y = band_hashes(b, 100, 10);
        for (std::size_t band = 0; band < 10; ++band) {
          agreeing += x[band] == y[band] ? 1 : 0;
        }
      }
      const double expected = std::pow(alike, 10);
      EXPECT_NEAR(agreeing / (10.0 * pairs), expected, 0.04)
          << size << " pieces, " << alike << " alike";
    }
  }
}

TEST(MinHash, OrderAndRepetitionDoNotMatter) {
  const std::string text = "the cat and the dog and the cat again";
  EXPECT_EQ(
      band_hashes(pieces_of(text), 20, 5),
      band_hashes(shingles_of(text), 20, 5));
}

TEST(MinHash, OneShingleIsEnough) {
  const std::vector<std::uint64_t> one{12345};
  EXPECT_EQ(band_hashes(one, 100, 10), band_hashes(one, 100, 10));
  EXPECT_TRUE(band_hashes({}, 100, 10).empty());
}

} // namespace
} // namespace cairn::corpus::min_hash_test
