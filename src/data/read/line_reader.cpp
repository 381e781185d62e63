#include "data/internal/line_reader.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace cairn::data {
namespace {

/// Counts lines, including a last one without a line end.
std::uint64_t count_lines(std::string_view text) {
  std::uint64_t lines = 0;
  for (std::size_t at = 0; at < text.size(); ++lines) {
    const std::size_t newline = text.find('\n', at); // scans many bytes at once
    at = std::min(newline, text.size() - 1) + 1;
  }
  return lines;
}

} // namespace

BlockBuffer::~BlockBuffer() {
  std::free(data_);
}

BlockBuffer::BlockBuffer(BlockBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)) {}

BlockBuffer& BlockBuffer::operator=(BlockBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

void BlockBuffer::reserve(std::size_t capacity) {
  if (capacity <= capacity_) {
    return;
  }
  // The kernel moves large blocks page by page, without a second copy.
  void* const grown = std::realloc(data_, capacity);
  if (grown == nullptr) {
    throw std::bad_alloc();
  }
  data_ = static_cast<char*>(grown);
  capacity_ = capacity;
}

BlockReader::BlockReader(const std::filesystem::path& path, Options options)
    : options_(options),
      file_(path == "-" ? "standard input" : path.string()),
      stream_(open_input(path, options.interrupt)) {}

bool BlockReader::next(LineBlock& block) {
  block.file = file_;
  block.first_line = next_line_;
  block.buffer.reserve(
      std::max(options_.block_size, rest_.size()) + LineBlock::padding);
  std::memcpy(block.buffer.data(), rest_.data(), rest_.size());
  std::size_t size = rest_.size();
  rest_.clear();

  // Reads up to the last whole line; the buffer grows while there is none.
  std::size_t end = 0;
  while (!ended_) {
    const std::size_t room = block.buffer.capacity() - LineBlock::padding;
    if (size == room) {
      if (end > 0) {
        break;
      }
      if (size > options_.longest_line) {
        throw DataError(
            {.what = "the line is too long",
             .where = fmt::format("{}:{}", file_, next_line_),
             .values = fmt::format("more than {} bytes", options_.longest_line),
             .remedy = "is this a file with one document on each line?"});
      }
      block.buffer.reserve(room * 2 + LineBlock::padding);
      continue;
    }
    char* const at = block.buffer.data() + size;
    // Reads at most one block beyond the end of a long line.
    const std::size_t got =
        stream_->read({at, std::min(room - size, options_.block_size)});
    if (got == 0) {
      ended_ = true;
      break;
    }
    size += got;
    const std::string_view fresh(at, got);
    const std::size_t newline = fresh.rfind('\n');
    if (newline != std::string_view::npos) {
      end = size - got + newline + 1;
    }
    if (end > 0 && size >= options_.block_size) {
      break; // do not fill a buffer that a long line enlarged
    }
  }
  if (ended_) {
    end = size; // the last line may lack its newline
  }
  rest_.assign(block.buffer.data() + end, size - end);
  block.size = end;
  std::memset(block.buffer.data() + end, 0, LineBlock::padding);
  block.lines = count_lines(block.text());
  next_line_ += block.lines;
  block.stored = stream_->stored_position() - stored_;
  stored_ = stream_->stored_position();
  return end > 0;
}

LineReader::LineReader(const std::filesystem::path& path) : blocks_(path, {}) {}

std::optional<std::string_view> LineReader::next() {
  if (position_ == block_.size) {
    position_ = 0;
    if (!blocks_.next(block_)) {
      return std::nullopt;
    }
  }
  std::string_view text = block_.text().substr(position_);
  const std::size_t before = text.size();
  const std::string_view line = take_line(text);
  position_ += before - text.size();
  ++number_;
  return line;
}

std::string LineReader::where() const {
  return fmt::format("{}:{}", block_.file, number_);
}

std::string_view take_line(std::string_view& text) {
  const std::size_t newline = text.find('\n');
  std::string_view line = text.substr(0, newline);
  text.remove_prefix(
      newline == std::string_view::npos ? text.size() : newline + 1);
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  return line;
}

} // namespace cairn::data
