#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// A text's pieces of five characters, one from each place: hashes of them.
std::vector<std::uint64_t> pieces_of(std::string_view text);

/// The same as a set: ascending, each once.
std::vector<std::uint64_t> shingles_of(std::string_view text);

/// How the recipe's tools measure what two texts share.
enum class Similarity {
  union_, ///< of all pieces that either has: Jaccard's
  min,    ///< of the pieces of the smaller
  max,    ///< of the pieces of the larger
};

double similarity(
    std::span<const std::uint64_t> a,
    std::span<const std::uint64_t> b,
    Similarity measure);

/// A text's MinHash values, folded into `bands`: two texts that share the part
/// s of their pieces agree in a band with probability s^(values / bands).
///
/// One hash per piece serves for all values: it chooses which of them the piece
/// competes for, and with what. A value that no piece chose is taken from the
/// next that has one. For texts of more pieces than values this estimates as
/// well as a hash function per value and costs a hundredth. Order and
/// repetition do not matter. Empty without pieces.
std::vector<std::uint64_t> band_hashes(
    std::span<const std::uint64_t> pieces,
    std::size_t values,
    std::size_t bands);

} // namespace cairn::corpus
