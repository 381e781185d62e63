#include "corpus/clean/min_hash.h"

#include "corpus/clean/unicode.h"

#include <algorithm>
#include <array>
#include <limits>

namespace cairn::corpus {
namespace {

constexpr std::size_t shingle_length = 5;

/// SplitMix64's finaliser: every bit of the result depends on every bit of x.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

} // namespace

std::vector<std::uint64_t> pieces_of(std::string_view text) {
  std::vector<std::uint64_t> pieces;
  pieces.reserve(text.size());
  std::array<char32_t, shingle_length> window{};
  std::size_t count = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    std::move(window.begin() + 1, window.end(), window.begin());
    window.back() = next_code_point(text, at);
    if (++count >= shingle_length) {
      // 21 bits a character: three characters fill the first word, two the
      // second.
      const std::uint64_t first = std::uint64_t{window[0]} |
          std::uint64_t{window[1]} << 21 | std::uint64_t{window[2]} << 42;
      const std::uint64_t second =
          std::uint64_t{window[3]} | std::uint64_t{window[4]} << 21;
      pieces.push_back(mixed(mixed(first + 0x9e3779b97f4a7c15) ^ second));
    }
  }
  return pieces;
}

std::vector<std::uint64_t> shingles_of(std::string_view text) {
  std::vector<std::uint64_t> shingles = pieces_of(text);
  std::sort(shingles.begin(), shingles.end());
  shingles.erase(std::unique(shingles.begin(), shingles.end()), shingles.end());
  return shingles;
}

double similarity(
    std::span<const std::uint64_t> a,
    std::span<const std::uint64_t> b,
    Similarity measure) {
  if (a.empty() || b.empty()) {
    return 0;
  }
  std::size_t shared = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    shared += a[i] == b[j] ? 1 : 0;
    const bool step_i = a[i] <= b[j];
    const bool step_j = b[j] <= a[i];
    i += step_i ? 1 : 0;
    j += step_j ? 1 : 0;
  }
  const std::size_t whole = measure == Similarity::min
      ? std::min(a.size(), b.size())
      : measure == Similarity::max ? std::max(a.size(), b.size())
                                   : a.size() + b.size() - shared;
  return static_cast<double>(shared) / static_cast<double>(whole);
}

std::vector<std::uint64_t> band_hashes(
    std::span<const std::uint64_t> pieces,
    std::size_t values,
    std::size_t bands) {
  if (pieces.empty()) {
    return {};
  }
  constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> least(values, none);
  for (const std::uint64_t piece : pieces) {
    const std::uint64_t chosen = (piece >> 32) * values >> 32;
    least[chosen] = std::min(least[chosen], piece & 0xffffffff);
  }
  std::vector<std::uint64_t> full = least;
  for (std::size_t i = 0; i < values; ++i) {
    std::size_t distance = 0;
    while (least[(i + distance) % values] == none) {
      ++distance;
    }
    full[i] = least[(i + distance) % values] + (std::uint64_t{distance} << 32);
  }
  const std::size_t rows = values / bands;
  std::vector<std::uint64_t> hashes(bands);
  for (std::size_t band = 0; band < bands; ++band) {
    std::uint64_t hash = band;
    for (std::size_t row = 0; row < rows; ++row) {
      hash = mixed(hash ^ full[band * rows + row]) + 0x9e3779b97f4a7c15;
    }
    hashes[band] = hash;
  }
  return hashes;
}

} // namespace cairn::corpus
