#include "corpus/download/tar_archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::corpus {
namespace {

constexpr std::size_t tar_block = 512;
/// Size limit for data that only describe a member: names and pax records.
constexpr std::uint64_t most_description = 1 << 20;

class TarReader {
 public:
  TarReader(data::ByteStream& stream, ArchiveOutput& output)
      : stream_(stream), output_(output) {}

  void unpack() {
    while (read_block()) {
      if (std::all_of(block_.begin(), block_.end(), [](char c) {
            return c == '\0';
          })) {
        read_padding();
        return;
      }
      check_sum();
      member();
    }
    output_.refuse("the archive ends without its end mark");
  }

 private:
  /// Reads a block; false at the end of the stream.
  bool read_block() {
    std::size_t filled = 0;
    while (filled < tar_block) {
      const auto got = stream_.read(std::span(block_).subspan(filled));
      if (got == 0) {
        break;
      }
      filled += got;
    }
    if (filled != 0 && filled != tar_block) {
      output_.refuse("the archive is cut off");
    }
    offset_ += filled;
    return filled == tar_block;
  }

  /// Reads what follows the end mark, so that a compressed archive is read up
  /// to its own checksum.
  void read_padding() {
    constexpr int most_blocks = 100'000;
    for (int i = 0; read_block(); ++i) {
      if (i == most_blocks) {
        output_.refuse("the archive goes on after its end mark");
      }
    }
  }

  std::string_view field(std::size_t from, std::size_t size) const {
    const std::string_view bytes(block_.data() + from, size);
    return bytes.substr(0, std::min(bytes.find('\0'), size));
  }

  /// A number in octal digits or, if the high bit is set, in big-endian binary.
  std::uint64_t number(std::size_t from, std::size_t size) const {
    std::uint64_t value = 0;
    if ((block_[from] & 0x80) != 0) {
      for (std::size_t i = 1; i < size; ++i) {
        if (value >> 54 != 0) {
          bad_header();
        }
        value = value << 8 | static_cast<unsigned char>(block_[from + i]);
      }
      return value;
    }
    std::string_view digits = field(from, size);
    digits.remove_prefix(
        std::min(digits.find_first_not_of(' '), digits.size()));
    digits = digits.substr(0, std::min(digits.find(' '), digits.size()));
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value, 8);
    if (error != std::errc() || stop != end) {
      bad_header();
    }
    return value;
  }

  [[noreturn]] void bad_header() const {
    output_.refuse(
        "this is no tar archive, or a broken one",
        fmt::format("at byte {}", offset_ - tar_block));
  }

  void check_sum() const {
    constexpr std::size_t sum_at = 148;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < tar_block; ++i) {
      const bool in_sum = i >= sum_at && i < sum_at + 8;
      sum += in_sum ? ' ' : static_cast<unsigned char>(block_[i]);
    }
    if (sum != number(sum_at, 8)) {
      bad_header();
    }
  }

  /// Passes the `size` bytes after the header to `take`, without the padding.
  template <typename Function>
  void body(std::uint64_t size, Function&& take) {
    while (size > 0) {
      if (!read_block()) {
        output_.refuse("the archive is cut off");
      }
      const auto part =
          static_cast<std::size_t>(std::min<std::uint64_t>(size, tar_block));
      take(std::span<const char>(block_).first(part));
      size -= part;
    }
  }

  std::string description(std::uint64_t size) {
    if (size > most_description) {
      bad_header();
    }
    std::string text;
    body(size, [&](std::span<const char> bytes) {
      text.append(bytes.data(), bytes.size());
    });
    return text;
  }

  /// Reads records "LENGTH key=value\n", whose length includes itself.
  void read_pax(const std::string& text) {
    std::string_view rest = text;
    while (!rest.empty()) {
      std::size_t length = 0;
      const auto [stop, error] =
          std::from_chars(rest.data(), rest.data() + rest.size(), length);
      const auto space = static_cast<std::size_t>(stop - rest.data());
      if (error != std::errc() || length > rest.size() || length < space + 2 ||
          rest[space] != ' ' || rest[length - 1] != '\n') {
        bad_header();
      }
      const auto record = rest.substr(space + 1, length - space - 2);
      const auto equals = std::min(record.find('='), record.size());
      const auto value = record.substr(std::min(equals + 1, record.size()));
      if (record.substr(0, equals) == "path") {
        name_ = value;
      } else if (record.substr(0, equals) == "size") {
        std::uint64_t size = 0;
        const char* const end = value.data() + value.size();
        const auto read = std::from_chars(value.data(), end, size);
        if (read.ec != std::errc() || read.ptr != end) {
          bad_header();
        }
        size_ = size;
      }
      rest.remove_prefix(length);
    }
  }

  std::string header_name() const {
    std::string name(field(0, 100));
    const bool ustar = std::string_view(block_.data() + 257, 5) == "ustar";
    if (const auto prefix = field(345, 155);
        ustar && block_[263] == '0' && !prefix.empty()) {
      name = std::string(prefix) + "/" + name;
    }
    return name;
  }

  void member() {
    const char kind = block_[156];
    const std::uint64_t size = size_.value_or(number(124, 12));
    if (kind == 'L') { // GNU: the next member's name
      name_ = description(size);
      name_->resize(std::min(name_->find('\0'), name_->size()));
      return;
    }
    if (kind == 'x') { // pax: records about the next member
      read_pax(description(number(124, 12)));
      return;
    }
    if (kind == 'g') { // pax: records about all members
      description(number(124, 12));
      return;
    }
    const std::string name = name_ ? *name_ : header_name();
    name_.reset();
    size_.reset();
    if (kind == '5') {
      output_.make_folder(name);
    } else if (kind == '0' || kind == '\0' || kind == '7') {
      output_.begin(name);
      body(size, [&](std::span<const char> bytes) { output_.write(bytes); });
      output_.finish();
    } else {
      output_.refuse(
          "a member is a link, a device or of an unknown kind",
          fmt::format("kind {:#04x}, at byte {}", kind & 0xff, offset_));
    }
  }

  data::ByteStream& stream_;
  ArchiveOutput& output_;
  std::array<char, tar_block> block_{};
  std::uint64_t offset_ = 0;
  std::optional<std::string> name_;   ///< for the next member
  std::optional<std::uint64_t> size_; ///< for the next member
};

} // namespace

void unpack_tar(data::ByteStream& stream, ArchiveOutput& output) {
  TarReader(stream, output).unpack();
}

} // namespace cairn::corpus
