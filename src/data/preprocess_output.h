#pragma once

#include <cairn/data/indexed_writer.h>
#include <cairn/data/preprocess.h>

#include "data/line_encoder.h"
#include "data/sequence_spool.h"

#include <cstdint>
#include <vector>

namespace cairn::data {

/// The files of a run: a pair for each key. The first partition goes to them
/// straight away, the others wait until all lines are dealt.
class PreprocessOutput {
 public:
  PreprocessOutput(const PreprocessOptions& options, TokenType type);

  void append(const EncodedLines& lines);
  void commit();

  std::uint64_t token_count() const; ///< all partitions, all keys
  std::uint64_t bytes_written() const;

 private:
  std::size_t keys_;
  std::size_t token_size_;
  std::uint64_t token_bytes_ = 0;
  std::vector<IndexedWriter> writers_;
  std::vector<SequenceSpool> spools_; ///< from partition 1 on
};

} // namespace cairn::data
