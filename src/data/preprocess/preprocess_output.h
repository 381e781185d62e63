#pragma once

#include <cairn/data/indexed_writer.h>

#include "data/internal/preprocess.h"
#include "data/preprocess/line_encoder.h"
#include "data/preprocess/sequence_spool.h"

#include <cstdint>
#include <vector>

namespace cairn::data {

/// The output files of a run, one pair per key. The first partition is written
/// directly; the other partitions wait on disk until all lines are encoded.
class PreprocessOutput {
 public:
  PreprocessOutput(const PreprocessOptions& options, TokenType type);

  void append(const EncodedLines& lines);
  void commit();

  std::uint64_t token_count() const; ///< over all partitions and keys
  std::uint64_t bytes_written() const;

 private:
  std::size_t keys_;
  std::size_t token_size_;
  std::uint64_t token_bytes_ = 0;
  std::vector<IndexedWriter> writers_;
  std::vector<SequenceSpool> spools_; ///< for partitions 1 and above
};

} // namespace cairn::data
