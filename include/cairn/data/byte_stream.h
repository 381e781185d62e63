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

  /// Fills `out` from the front and returns how much; 0 only at the end.
  virtual std::size_t read(std::span<char> out) = 0;

  /// Of the file as it lies on disk, for progress; 0 when it is not known.
  virtual std::uint64_t stored_size() const = 0;
  virtual std::uint64_t stored_position() const = 0;
};

/// A file, or standard input for "-". What is compressed with gzip, zstd, xz or
/// bzip2 is recognised by its first bytes, whatever its name, and unpacked on
/// the way. A file that cannot be read or unpacked is a DataError. Once
/// `interrupt`, a descriptor, can be read from, nobody waits for a pipe any
/// longer: the input ends where it is.
std::unique_ptr<ByteStream> open_input(
    const std::filesystem::path& path,
    int interrupt = -1);

} // namespace cairn::data
