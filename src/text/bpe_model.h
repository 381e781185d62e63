#pragma once

#include "text/merge_table.h"

#include <cairn/text/tokenizer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::text {

/// The scratch memory of merging, kept from word to word.
struct BpeScratch {
  std::vector<TokenId> symbols;
  std::vector<MergeTable::Merge> merges;
  std::vector<std::uint32_t> next; ///< of long words only, as the rest
  std::vector<std::uint32_t> previous;
  std::vector<std::uint64_t> queue;
};

/// Byte pair encoding of one word: bytes become symbols, and while two
/// neighbours have a merge, the most important of those, the leftmost of
/// equals, is made.
class BpeModel {
 public:
  /// `bytes` has the id of each single byte, -1 where the vocabulary has none.
  BpeModel(
      const std::array<TokenId, 256>& bytes,
      std::span<const MergeTable::Rule> rules);

  /// The ids of the word, in `scratch`: of all of it, or of the front of a very
  /// long one, so that memory does not grow with it. Takes what they stand for
  /// off `word`. Throws DataError for a byte that the vocabulary lacks.
  std::span<const TokenId> encode_front(
      std::string_view& word,
      BpeScratch& scratch) const;

 private:
  /// What lies this many bytes or more before the end of a text is cut the same
  /// whatever follows: taking merges rank by rank, one that depends on what
  /// follows can only make its left symbol uncertain, so that all ranks
  /// together reach no further back than their left symbols laid end to end.
  /// Nothing where a rule makes a symbol that an earlier rule needs, so that
  /// ranks do not come in order.
  std::optional<std::size_t> reach(std::span<const MergeTable::Rule> rules);

  std::span<const TokenId> encode_whole(
      std::string_view word,
      BpeScratch& scratch) const;
  void merge_short(BpeScratch& scratch) const;
  void merge_long(BpeScratch& scratch) const;

  std::array<TokenId, 256> bytes_;
  MergeTable merges_;
  std::vector<std::uint32_t> lengths_; ///< in bytes, by id
  std::optional<std::size_t> reach_;
};

} // namespace cairn::text
