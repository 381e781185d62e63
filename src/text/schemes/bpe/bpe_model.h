#pragma once

#include "text/schemes/bpe/merge_table.h"

#include <cairn/text/tokenizer.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::text {

/// Scratch memory for merging, kept from word to word.
struct BpeScratch {
  std::vector<TokenId> symbols;
  std::vector<MergeTable::Merge> merges;
  std::vector<std::uint32_t> next; ///< this and the rest: for long words only
  std::vector<std::uint32_t> previous;
  std::vector<std::uint64_t> queue;
};

/// Byte pair encoding of one word. Bytes become symbols; then, as long as two
/// neighbours have a merge, the most important merge is made, the leftmost of
/// equals first.
class BpeModel {
 public:
  /// `bytes` has the id of each single byte, -1 where the vocabulary has none.
  BpeModel(
      const std::array<TokenId, 256>& bytes,
      std::span<const MergeTable::Rule> rules);

  /// Encodes the word, or only the front of a very long word, so that memory
  /// does not grow with its length. Removes the encoded bytes from `word` and
  /// returns their ids, which are in `scratch`. Throws DataError for a byte
  /// that the vocabulary lacks.
  std::span<const TokenId> encode_front(
      std::string_view& word,
      BpeScratch& scratch) const;

 private:
  /// The distance in bytes from the end of a text beyond which the encoding
  /// does not depend on what follows the text. Take the merges rank by rank: a
  /// merge that depends on what follows can only make its own left symbol
  /// uncertain, so all ranks together reach no further back than their left
  /// symbols laid end to end. Empty where a rule makes a symbol that an earlier
  /// rule needs, since ranks are then not made in order.
  std::optional<std::size_t> reach(std::span<const MergeTable::Rule> rules);

  std::span<const TokenId> encode_whole(
      std::string_view word,
      BpeScratch& scratch) const;
  void merge_short(BpeScratch& scratch) const;
  void merge_long(BpeScratch& scratch) const;

  std::array<TokenId, 256> bytes_;
  MergeTable merges_;
  std::vector<std::uint32_t> lengths_; ///< by id, in bytes
  std::optional<std::size_t> reach_;
};

} // namespace cairn::text
