#include "data/preprocess/sequence_spool.h"

#include <cstring>

namespace cairn::data {
namespace {

template <typename T>
void read_values(std::span<const std::byte> bytes, std::vector<T>& out) {
  out.resize(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
}

} // namespace

SequenceSpool::SequenceSpool(const std::filesystem::path& beside)
    : tokens_(open_unnamed_file(beside)),
      lengths_(open_unnamed_file(beside)),
      ends_(open_unnamed_file(beside)) {}

void SequenceSpool::append(const SequenceBlock& block) {
  tokens_.write(block.tokens);
  lengths_.write_values<std::int32_t>(block.lengths);
  for (const std::int64_t end : block.document_ends) {
    ends_.write_value(sequences_ + end);
  }
  sequences_ += static_cast<std::int64_t>(block.lengths.size());
}

void SequenceSpool::move_to(IndexedWriter& writer) {
  SequenceBlock piece;
  tokens_.replay(sizeof(std::int64_t), [&](std::span<const std::byte> bytes) {
    piece.tokens.assign(bytes.begin(), bytes.end());
    writer.append(piece);
  });
  // Ends go first: they are relative to the number of sequences that the writer
  // has at that time.
  piece.clear();
  ends_.replay(sizeof(std::int64_t), [&](std::span<const std::byte> bytes) {
    read_values(bytes, piece.document_ends);
    writer.append(piece);
  });
  piece.clear();
  lengths_.replay(sizeof(std::int32_t), [&](std::span<const std::byte> bytes) {
    read_values(bytes, piece.lengths);
    writer.append(piece);
  });
}

} // namespace cairn::data
