#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// Hashes of the pieces of five characters that begin at each place of a text.
std::vector<std::uint64_t> pieces_of(std::string_view text);

/// The pieces of a text as a set: sorted, each once.
std::vector<std::uint64_t> shingles_of(std::string_view text);

/// Measures of what two texts share, as in the recipe's tools.
enum class Similarity {
  union_, ///< share of all pieces that either has (Jaccard)
  min,    ///< share of the pieces of the smaller text
  max,    ///< share of the pieces of the larger text
};

double similarity(
    std::span<const std::uint64_t> a,
    std::span<const std::uint64_t> b,
    Similarity measure);

/// A text's MinHash values, folded into `bands`. Two texts that share the part
/// s of their pieces agree in a band with probability s^(values / bands).
///
/// One hash per piece serves for all values: it decides for which value the
/// piece competes, and with which number. A value that no piece competes for is
/// copied from the next one that has a number. For texts with more pieces than
/// values this estimates as well as one hash function per value, at a hundredth
/// of the cost. Order and repetition of pieces do not matter. Empty without
/// pieces.
std::vector<std::uint64_t> band_hashes(
    std::span<const std::uint64_t> pieces,
    std::size_t values,
    std::size_t bands);

} // namespace cairn::corpus
