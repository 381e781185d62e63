#pragma once

#include <cairn/data/indexed_dataset.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
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

/// Writes PREFIX.bin and PREFIX.idx, byte for byte as Megatron does. Nothing
/// appears under these names before commit(). Without commit() nothing is left,
/// not even PREFIX.bin.partial and PREFIX.idx.partial. Memory does not grow
/// with the amount written.
class IndexedWriter {
 public:
  struct Options {
    IndexFormat format = IndexFormat::mmap;
    TokenType type = TokenType::int32;
  };

  IndexedWriter(std::filesystem::path prefix, Options options);
  ~IndexedWriter();
  IndexedWriter(IndexedWriter&&) noexcept;

  const std::filesystem::path& prefix() const noexcept;
  TokenType type() const noexcept;

  /// Adds a sequence to the current document. Throws DataError for ids that do
  /// not fit the type.
  void add_sequence(std::span<const std::int32_t> ids);
  void end_document();

  /// Adds whole documents, whose tokens are stored as `type()`.
  void append(const SequenceBlock& block);

  std::uint64_t sequence_count() const noexcept;
  std::uint64_t document_count() const noexcept;
  std::uint64_t token_count() const noexcept;

  /// Writes the index and syncs both files, still under temporary names.
  void finish();
  void commit();

  /// Publishes several pairs that belong together: all are on disk before the
  /// first is renamed, and indices are renamed last. Existing pairs are
  /// replaced and never mixed with the new ones.
  static void commit(std::span<IndexedWriter> writers);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::data
