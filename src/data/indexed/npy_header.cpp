#include "data/indexed/npy_header.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <optional>

namespace cairn::data {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t most_dimensions = 2;
constexpr std::array<std::string_view, 5> descriptions{
    "<i2",
    "<i4",
    "<u4",
    "<i8",
    "<u8"};

/// Parser of the one-line Python dictionary in the header.
class Dictionary {
 public:
  Dictionary(std::string_view text, const std::string& where)
      : text_(text), where_(where) {}

  NpyHeader parse() {
    NpyHeader header;
    std::array<bool, 3> seen{};
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") {
        seen[0] = true;
        header.type = type(quoted());
      } else if (key == "fortran_order") {
        seen[1] = true;
        order();
      } else if (key == "shape") {
        seen[2] = true;
        header.shape = shape();
      } else {
        refuse(fmt::format("unknown key \"{}\"", printable(key)));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (skip_spaces(); at_ != text_.size()) {
      refuse("something follows the description");
    }
    if (!seen[0] || !seen[1] || !seen[2]) {
      refuse("the description is incomplete");
    }
    return header;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw DataError(
        {.what = "not an array of numpy's that Cairn reads: " + why,
         .where = where_});
  }

  static std::string printable(std::string_view text) {
    std::string result;
    for (const char c : text.substr(0, 40)) {
      result += c >= ' ' && c <= '~' ? c : '?';
    }
    return result;
  }

  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool accept(char c) {
    skip_spaces();
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }
  void expect(char c) {
    if (!accept(c)) {
      refuse(fmt::format("no '{}' at byte {} of the description", c, at_));
    }
  }
  std::string_view quoted() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') {
      refuse(fmt::format("no word at byte {} of the description", at_));
    }
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) {
      refuse("a word without an end");
    }
    const std::string_view word = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return word;
  }
  IndexType type(std::string_view description) const {
    for (std::size_t i = 0; i < descriptions.size(); ++i) {
      if (descriptions[i] == description) {
        return static_cast<IndexType>(i);
      }
    }
    refuse(fmt::format("elements of type \"{}\"", printable(description)));
  }
  void order() {
    skip_spaces();
    constexpr std::string_view rows_first = "False";
    if (!text_.substr(at_).starts_with(rows_first)) {
      refuse("columns first");
    }
    at_ += rows_first.size();
  }
  std::vector<std::size_t> shape() {
    std::vector<std::size_t> result;
    expect('(');
    while (!accept(')')) {
      skip_spaces();
      std::size_t extent = 0;
      const char* const end = text_.data() + text_.size();
      const auto [stop, error] =
          std::from_chars(text_.data() + at_, end, extent);
      if (error != std::errc{} || result.size() == most_dimensions) {
        refuse("a shape that cannot be");
      }
      at_ = static_cast<std::size_t>(stop - text_.data());
      result.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    if (result.empty()) {
      refuse("a single number");
    }
    return result;
  }

  std::string_view text_;
  const std::string& where_;
  std::size_t at_ = 0;
};

} // namespace

NpyHeader parse_npy_header(
    std::span<const std::byte> bytes,
    const std::string& where) {
  const std::string_view text(
      reinterpret_cast<const char*>(bytes.data()),
      bytes.size());
  const auto refuse = [&](std::string what) -> DataError {
    return DataError({.what = std::move(what), .where = where});
  };
  if (!text.starts_with(magic) || text.size() < 10) {
    throw refuse("not an array that numpy.save wrote");
  }
  // The header length has two bytes in version 1, four in versions 2 and 3.
  const auto version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) {
    throw refuse(fmt::format("version {} of numpy's format", version));
  }
  const std::size_t digits = version == 1 ? 2 : 4;
  if (text.size() < 8 + digits) {
    throw refuse("the header is cut off");
  }
  std::size_t length = 0;
  for (std::size_t i = 0; i < digits; ++i) {
    length |= std::size_t{static_cast<unsigned char>(text[8 + i])} << (8 * i);
  }
  const std::size_t begin = 8 + digits;
  if (length > text.size() - begin) {
    throw refuse("the header is cut off");
  }
  NpyHeader header = Dictionary(text.substr(begin, length), where).parse();
  header.data_offset = begin + length;

  std::uint64_t elements = 1;
  for (const std::size_t extent : header.shape) {
    if (__builtin_mul_overflow(elements, extent, &elements)) {
      throw refuse("a shape that cannot be");
    }
  }
  std::uint64_t expected = 0;
  if (__builtin_mul_overflow(elements, size_of(header.type), &expected) ||
      expected != bytes.size() - header.data_offset) {
    throw DataError(
        {.what = "the file has not the size that its header gives",
         .where = where,
         .values = fmt::format(
             "shape ({}), {} bytes of data",
             fmt::join(header.shape, ", "),
             bytes.size() - header.data_offset)});
  }
  if (header.data_offset % size_of(header.type) != 0) {
    throw refuse("the data are not aligned");
  }
  return header;
}

std::string npy_header_text(
    IndexType type,
    const std::vector<std::size_t>& shape) {
  std::string text = fmt::format(
      "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
      descriptions[static_cast<std::size_t>(type)],
      fmt::join(shape, ", "),
      shape.size() == 1 ? "," : "");
  // numpy leaves room for the first extent to grow to 21 digits, pads to a
  // multiple of 64 bytes (adding 64 if it already is one) and ends with a line
  // break.
  text.append(21 - fmt::formatted_size("{}", shape.at(0)), ' ');
  text.append(64 - (magic.size() + 4 + text.size() + 1) % 64, ' ');
  text += '\n';
  std::string result(magic);
  result += {'\1', '\0'};
  result += static_cast<char>(text.size() & 0xff);
  result += static_cast<char>(text.size() >> 8);
  return result + text;
}

} // namespace cairn::data
