#pragma once

#include <cairn/data/indexed_dataset.h>
#include <cairn/data/sequence_block.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace cairn::data {

/// Writes PREFIX.bin and PREFIX.idx, byte for byte as Megatron does. Nothing
/// appears under these names before commit(); without it nothing is left, not
/// even PREFIX.bin.partial and PREFIX.idx.partial. Its memory does not grow
/// with what is written.
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

  /// Ids that do not fit the type are a DataError.
  void add_sequence(std::span<const std::int32_t> ids);
  void end_document();

  /// The same for whole documents whose tokens are stored as `type()`.
  void append(const SequenceBlock& block);

  std::uint64_t sequence_count() const noexcept;
  std::uint64_t document_count() const noexcept;
  std::uint64_t token_count() const noexcept;

  /// Writes the index and puts all on disk, still under temporary names.
  void finish();
  void commit();

  /// Several pairs that belong together appear together: all are on disk before
  /// the first is renamed, and indices come last. Pairs that were there are
  /// replaced and never mixed with the new.
  static void commit(std::span<IndexedWriter> writers);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::data
