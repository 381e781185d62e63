#pragma once

#include <cairn/data/byte_stream.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::data {

/// Memory for the bytes of a block. Unlike a vector's, it is neither set to
/// zero nor copied when a long line makes it grow.
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
  /// Readable bytes behind the last line, which fast parsers ask for.
  static constexpr std::size_t padding = 64;

  std::string file;             ///< for messages
  std::uint64_t first_line = 1; ///< number of the first line in the file
  std::uint64_t lines = 0;      ///< how many
  BlockBuffer buffer;           ///< at least size + padding bytes
  std::size_t size = 0;
  std::uint64_t stored = 0; ///< bytes of the file that were read for it

  std::string_view text() const { return {buffer.data(), size}; }
};

/// Cuts an input into blocks of whole lines: about `block_size` bytes each, and
/// more only where one line is longer.
class BlockReader {
 public:
  struct Options {
    std::size_t block_size = 1 << 20;
    /// A longer line is a DataError.
    std::uint64_t longest_line = (std::uint64_t{1} << 32) - (1 << 20);
    int interrupt = -1; ///< as open_input() takes it
  };

  BlockReader(const std::filesystem::path& path, Options options);

  /// Fills `block` with what comes next; false at the end.
  bool next(LineBlock& block);

 private:
  Options options_;
  std::string file_;
  std::unique_ptr<ByteStream> stream_;
  std::string rest_; ///< the beginning of a line, left over by the last block
  std::uint64_t next_line_ = 1;
  std::uint64_t stored_ = 0;
  bool ended_ = false;
};

/// The lines of an input, one by one, with "\n" or "\r\n" taken off.
///
///   LineReader lines("corpus.jsonl.gz");
///   while (const auto line = lines.next()) { … }
class LineReader {
 public:
  explicit LineReader(const std::filesystem::path& path);

  /// Valid until the next call and followed by LineBlock::padding bytes; empty
  /// at the end.
  std::optional<std::string_view> next();

  std::uint64_t number() const noexcept { return number_; }
  std::string where() const; ///< "file:line", for messages

 private:
  BlockReader blocks_;
  LineBlock block_;
  std::size_t position_ = 0;
  std::uint64_t number_ = 0;
};

/// Takes the first line off `text`, without its end.
std::string_view take_line(std::string_view& text);

} // namespace cairn::data
