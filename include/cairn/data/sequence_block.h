#pragma once

#include <cairn/data/token_type.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::data {

/// Some documents in the form that files have: made by one thread, written by
/// another.
struct SequenceBlock {
  std::vector<std::byte> tokens;
  std::vector<std::int32_t> lengths; ///< tokens of each sequence
  /// The number of sequences in this block up to the end of each document.
  std::vector<std::int64_t> document_ends;

  void add_sequence(TokenType type, std::span<const std::int32_t> ids);
  void end_document();
  void clear();
};

/// Appends ids as `type` stores them. Throws DataError for an id that does not
/// fit.
void append_ids(
    TokenType type,
    std::span<const std::int32_t> ids,
    std::vector<std::byte>& out);

/// The length of a sequence in the type of index files. Throws DataError for
/// 2^31 tokens or more.
std::int32_t sequence_length(std::uint64_t tokens);

} // namespace cairn::data
