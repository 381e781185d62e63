#pragma once

#include <cairn/data/indexed_writer.h>

#include "data/read/buffered_file.h"

#include <filesystem>

namespace cairn::data {

/// Documents that wait on disk, in nameless files, until it is their turn to be
/// written.
class SequenceSpool {
 public:
  explicit SequenceSpool(const std::filesystem::path& beside);

  void append(const SequenceBlock& block);
  void move_to(IndexedWriter& writer);

 private:
  BufferedFile tokens_;
  BufferedFile lengths_;
  BufferedFile ends_; ///< relative to the first sequence in here
  std::int64_t sequences_ = 0;
};

} // namespace cairn::data
