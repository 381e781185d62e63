#pragma once

#include "data/internal/byte_stream.h"
#include "data/read/raw_input.h"

#include <memory>

namespace cairn::data {

// Streams for each kind of compressed file. Several members in one file are
// read as one.
std::unique_ptr<ByteStream> unpack_gzip(RawInput raw);
std::unique_ptr<ByteStream> unpack_zstd(RawInput raw);
std::unique_ptr<ByteStream> unpack_xz(RawInput raw);
std::unique_ptr<ByteStream> unpack_bzip2(RawInput raw);

/// The common base of the streams.
class RawStream : public ByteStream {
 public:
  explicit RawStream(RawInput raw) : raw_(std::move(raw)) {}
  std::uint64_t stored_size() const override { return raw_.size(); }
  std::uint64_t stored_position() const override { return raw_.position(); }

 protected:
  /// Called at the end of a member: true when another one follows, which begins
  /// with `magic`. Skips zeros that pad a tape's block and refuses anything
  /// else.
  bool another_member(std::string_view magic);

  RawInput raw_;
};

} // namespace cairn::data
