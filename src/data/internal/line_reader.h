#pragma once

#include "data/internal/byte_stream.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

/// Memory for the bytes of a block. Unlike a vector's memory, it is neither
/// zeroed nor copied when a long line makes it grow.
class BlockBuffer {
 public:
  BlockBuffer() = default;
  ~BlockBuffer();
  BlockBuffer(BlockBuffer&& other) noexcept;
  BlockBuffer& operator=(BlockBuffer&& other) noexcept;

  char* data() noexcept { return data_; }
  const char* data() const noexcept { return data_; }
  std::size_t capacity() const noexcept { return capacity_; }
  void reserve(std::size_t capacity);

 private:
  char* data_ = nullptr;
  std::size_t capacity_ = 0;
};

/// Some whole lines of an input.
struct LineBlock {
  /// Readable bytes after the last line, which fast parsers need.
  static constexpr std::size_t padding = 64;

  std::string file;             ///< for messages
  std::uint64_t first_line = 1; ///< number of the first line in the file
  std::uint64_t lines = 0;      ///< number of lines
  BlockBuffer buffer;           ///< at least size + padding bytes
  std::size_t size = 0;
  std::uint64_t stored = 0; ///< bytes of the file read for it

  std::string_view text() const { return {buffer.data(), size}; }
};

/// Cuts an input into blocks of whole lines, of about `block_size` bytes each.
/// A block is larger only when a single line is.
class BlockReader {
 public:
  struct Options {
    std::size_t block_size = 1 << 20;
    /// Longest line allowed, in bytes; a longer one is a DataError.
    std::uint64_t longest_line = (std::uint64_t{1} << 32) - (1 << 20);
    int interrupt = -1; ///< passed to open_input()
  };

  BlockReader(const std::filesystem::path& path, Options options);

  /// Fills `block` with the next lines; false at the end.
  bool next(LineBlock& block);

 private:
  Options options_;
  std::string file_;
  std::unique_ptr<ByteStream> stream_;
  std::string rest_; ///< start of a line, left over from the last block
  std::uint64_t next_line_ = 1;
  std::uint64_t stored_ = 0;
  bool ended_ = false;
};

/// Reads the lines of an input one by one, without their "\n" or "\r\n".
///
///   LineReader lines("corpus.jsonl.gz");
///   while (const auto line = lines.next()) { … }
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);

  /// The next line, valid until the next call and followed by
  /// LineBlock::padding bytes; empty at the end.
  std::optional<std::string_view> next();

  std::uint64_t number() const noexcept { return number_; }
  std::string where() const; ///< "file:line", for messages

 private:
  BlockReader blocks_;
  LineBlock block_;
  std::size_t position_ = 0;
  std::uint64_t number_ = 0;
};

/// Removes the first line from `text` and returns it without its line end.
std::string_view take_line(std::string_view& text);

} // namespace cairn::data
