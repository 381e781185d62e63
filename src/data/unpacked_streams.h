#pragma once

#include <cairn/data/byte_stream.h>

#include "data/raw_input.h"

#include <memory>

namespace cairn::data {

// One stream for each kind of compressed file. Members that follow each other
// in one file are read as one.
std::unique_ptr<ByteStream> unpack_gzip(RawInput raw);
std::unique_ptr<ByteStream> unpack_zstd(RawInput raw);
std::unique_ptr<ByteStream> unpack_xz(RawInput raw);
std::unique_ptr<ByteStream> unpack_bzip2(RawInput raw);

/// What they have in common.
class RawStream : public ByteStream {
 public:
  explicit RawStream(RawInput raw) : raw_(std::move(raw)) {}
  std::uint64_t stored_size() const override { return raw_.size(); }
  std::uint64_t stored_position() const override { return raw_.position(); }

 protected:
  /// At the end of a member: whether another follows, which begins with
  /// `magic`. Zeros that fill up a tape's block are skipped; anything else is
  /// refused.
  bool another_member(std::string_view magic);

  RawInput raw_;
};

} // namespace cairn::data
