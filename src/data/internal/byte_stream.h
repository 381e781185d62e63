#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace cairn::data {

/// Bytes that are read once, front to back.
class ByteStream {
 public:
  virtual ~ByteStream() = default;

  /// Fills `out` from the front and returns the number of bytes; 0 only at the
  /// end.
  virtual std::size_t read(std::span<char> out) = 0;

  /// Size of the file on disk and position in it, for progress; 0 when unknown.
  virtual std::uint64_t stored_size() const = 0;
  virtual std::uint64_t stored_position() const = 0;
};

/// Opens a file, or standard input for "-". Data compressed with gzip, zstd, xz
/// or bzip2 is recognised by its first bytes, whatever the file name, and
/// unpacked on the fly. Throws DataError for a file that cannot be read or
/// unpacked. Once the descriptor `interrupt` becomes readable, reads no longer
/// wait for a pipe: the input ends there.
std::unique_ptr<ByteStream> open_input(
    const std::filesystem::path& path,
    int interrupt = -1);

} // namespace cairn::data
