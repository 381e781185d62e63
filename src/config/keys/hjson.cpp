#include "config/internal/hjson.h"

#include "base/internal/regular_file.h"
#include "base/internal/trimmed.h"
#include "base/internal/utf8.h"
#include "config/table/number_text.h"
#include "config/table/printable.h"

#include <cairn/base/error.h>

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unordered_map>

// Written by hand because no JSON library at hand keeps positions or reads
// hjson, and both matter here: files that DeepSpeed reads must be read, and a
// mistake must be found by its line. The odd corners (where an unquoted string
// ends, what may stand in an unquoted key) are those of the hjson package that
// DeepSpeed uses.

namespace cairn::config {
namespace {

constexpr int deepest = 100;
constexpr std::size_t longest = std::size_t{16} << 20;

class HjsonReader {
 public:
  HjsonReader(std::string_view text, std::string_view name)
      : text_(text), name_(name) {
    check_encoding();
    if (text_.substr(0, 3) == "\xef\xbb\xbf") { // a byte order mark
      text_.remove_prefix(3);
    }
  }

  Node read() {
    skip_blanks();
    Node root;
    if (at_end()) {
      root.value = Node::Object{};
      root.position = position(at_);
      return root;
    }
    if (peek() == '{') {
      root = read_value(0);
    } else if (peek() == '[') {
      fail("a configuration must be an object, not a list", at_);
    } else {
      root = read_object(0, Braces::none);
    }
    skip_blanks();
    if (!at_end()) {
      fail("there is more text after the end of the object", at_);
    }
    return root;
  }

 private:
  enum class Braces { curly, none };

  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool starts_with(std::string_view what) const {
    return text_.substr(at_, what.size()) == what;
  }

  // Remembers the last answer, so that asking in order costs one pass in all,
  // however long the lines.
  Position position(std::size_t offset) {
    if (offset < counted_) {
      counted_ = 0;
      line_start_ = 0;
      place_ = {1, 1};
    }
    for (; counted_ < offset; ++counted_) {
      if (text_[counted_] == '\n') {
        place_ = {place_.line + 1, 1};
        line_start_ = counted_ + 1;
      } else {
        place_.column +=
            (static_cast<unsigned char>(text_[counted_]) & 0xc0) != 0x80;
      }
    }
    return place_;
  }

  [[noreturn]] void fail(
      std::string what,
      std::size_t offset,
      std::string remedy = "") {
    const Position here = position(offset);
    throw ConfigError(
        {.what = std::move(what),
         .where = fmt::format("{}:{}:{}", name_, here.line, here.column),
         .remedy = std::move(remedy)});
  }

  void check_encoding() {
    if (text_.size() > longest) {
      throw ConfigError(
          {.what = "the text is too long for a configuration",
           .where = std::string(name_),
           .values =
               fmt::format("{} bytes, at most {}", text_.size(), longest)});
    }
    const std::size_t end = valid_utf8_end(text_);
    if (end != text_.size()) {
      fail("not valid UTF-8", end, "save the file as UTF-8");
    }
  }

  void skip_blanks() {
    while (!at_end()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++at_;
      } else if (c == '#' || starts_with("//")) {
        while (!at_end() && peek() != '\n' && peek() != '\r') {
          ++at_;
        }
      } else if (starts_with("/*")) {
        const std::size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) {
          fail("a comment that never ends", at_, "close it with */");
        }
        at_ = end + 2;
      } else {
        return;
      }
    }
  }

  Node read_value(int depth) {
    if (at_end()) {
      fail("the text ends where a value was expected", at_);
    }
    Node node;
    node.position = position(at_);
    if (starts_with("'''")) {
      node.value = read_multiline();
    } else if (peek() == '"' || peek() == '\'') {
      node.value = read_quoted();
    } else if (peek() == '{') {
      const Position start = node.position;
      ++at_;
      node = read_object(depth, Braces::curly);
      node.position = start;
    } else if (peek() == '[') {
      ++at_;
      node.value = read_array(depth);
    } else {
      node.value = read_unquoted();
    }
    return node;
  }

  Node read_object(int depth, Braces braces) {
    if (depth >= deepest) {
      fail("nested too deeply", at_);
    }
    const std::size_t start = at_;
    Node node;
    node.position = position(at_);
    Node::Object members;
    std::unordered_map<std::string, Position> seen;
    skip_blanks();
    while (braces == Braces::none ? !at_end() : peek() != '}') {
      if (at_end()) {
        fail("this object is never closed", start - 1, "add a }");
      }
      const std::size_t key_start = at_;
      Member member;
      member.position = position(at_);
      member.name = read_key();
      const auto [first, added] = seen.emplace(member.name, member.position);
      if (!added) {
        fail(
            fmt::format(
                "\"{}\" is given twice, first at {}:{}",
                printable(member.name),
                first->second.line,
                first->second.column),
            key_start,
            "keep one of them");
      }
      skip_blanks();
      if (peek() != ':') {
        fail(
            fmt::format("expected ':' after \"{}\"", printable(member.name)),
            at_);
      }
      ++at_;
      skip_blanks();
      member.value = read_value(depth + 1);
      members.push_back(std::move(member));
      skip_blanks();
      if (peek() == ',') {
        ++at_;
        skip_blanks();
      }
    }
    if (braces == Braces::curly) {
      ++at_;
    }
    node.value = std::move(members);
    return node;
  }

  Node::Array read_array(int depth) {
    if (depth >= deepest) {
      fail("nested too deeply", at_);
    }
    const std::size_t start = at_ - 1;
    Node::Array elements;
    skip_blanks();
    while (peek() != ']') {
      if (at_end()) {
        fail("this list is never closed", start, "add a ]");
      }
      elements.push_back(read_value(depth + 1));
      skip_blanks();
      if (peek() == ',') {
        ++at_;
        skip_blanks();
      }
    }
    ++at_;
    return elements;
  }

  std::string read_key() {
    if (peek() == '"' || peek() == '\'') {
      return read_quoted();
    }
    const std::size_t start = at_;
    while (!at_end()) {
      const char c = peek();
      if (c == ':') {
        if (at_ == start) {
          fail("a ':' without a key before it", start);
        }
        return std::string(text_.substr(start, at_ - start));
      }
      if (c == '{' || c == '}' || c == '[' || c == ']' || c == ',') {
        fail(
            fmt::format("found '{}' where a key was expected", c),
            at_,
            "check for a comma too many, or quote the key");
      }
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        std::string name(text_.substr(start, at_ - start));
        const std::size_t after = at_;
        while (peek() == ' ' || peek() == '\t' || peek() == '\n' ||
               peek() == '\r') {
          ++at_;
        }
        if (peek() != ':') {
          fail(
              "expected ':' after this key",
              after,
              "quote the key if it holds spaces");
        }
        return name;
      }
      ++at_;
    }
    fail("the text ends inside a key", start);
  }

  std::string read_quoted() {
    const std::size_t start = at_;
    const char quote = peek();
    ++at_;
    std::string result;
    while (true) {
      if (at_end()) {
        fail("this string is never closed", start, "add a closing quote");
      }
      const char c = peek();
      if (c == quote) {
        ++at_;
        return result;
      }
      if (static_cast<unsigned char>(c) < 0x20) {
        fail(
            "a line end or control character inside a quoted string",
            at_,
            "close the string, or write \\n");
      }
      ++at_;
      if (c != '\\') {
        result.push_back(c);
      } else {
        read_escape(result, start);
      }
    }
  }

  void read_escape(std::string& result, std::size_t string_start) {
    if (at_end()) {
      fail("this string is never closed", string_start);
    }
    static constexpr std::string_view names = "\"'\\/bfnrt";
    static constexpr std::string_view meanings = "\"'\\/\b\f\n\r\t";
    const char c = peek();
    if (c == 'u') {
      append_utf8(result, read_code_point());
      return;
    }
    const std::size_t which = names.find(c);
    if (which == std::string_view::npos) {
      fail("an escape that JSON does not know", at_ - 1, "write \\\\ for \\");
    }
    result.push_back(meanings[which]);
    ++at_;
  }

  std::uint32_t read_code_point() { // at the u of \uXXXX
    const std::size_t start = at_ - 1;
    const std::uint32_t high = read_hex4();
    if (high < 0xd800 || high > 0xdfff) {
      return high;
    }
    if (high < 0xdc00 && starts_with("\\u")) {
      ++at_;
      const std::uint32_t low = read_hex4();
      if (low >= 0xdc00 && low <= 0xdfff) {
        return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
      }
    }
    fail("half of a surrogate pair", start);
  }

  std::uint32_t read_hex4() {
    std::uint32_t code = 0;
    for (std::size_t i = 1; i <= 4; ++i) {
      const char c = peek(i);
      const int digit = c >= '0' && c <= '9' ? c - '0'
          : c >= 'a' && c <= 'f'             ? c - 'a' + 10
          : c >= 'A' && c <= 'F'             ? c - 'A' + 10
                                             : -1;
      if (digit < 0) {
        fail("\\u needs four hexadecimal digits", at_ - 1);
      }
      code = code * 16 + static_cast<std::uint32_t>(digit);
    }
    at_ += 5;
    return code;
  }

  // '''…''': the indentation of the opening quotes is taken off every line,
  // and the last line end is dropped.
  std::string read_multiline() {
    const std::size_t start = at_;
    position(at_);
    const std::size_t indent = at_ - line_start_;
    const auto skip_indent = [&](std::size_t most) {
      while (most > 0 && (peek() == ' ' || peek() == '\t' || peek() == '\r')) {
        ++at_;
        --most;
      }
    };
    at_ += 3;
    skip_indent(text_.size());
    if (peek() == '\n') {
      ++at_;
      skip_indent(indent);
    }
    std::string result;
    while (!at_end()) {
      if (starts_with("'''")) {
        at_ += 3;
        if (!result.empty() && result.back() == '\n') {
          result.pop_back();
        }
        return result;
      }
      const char c = peek();
      ++at_;
      if (c == '\n') {
        result.push_back(c);
        skip_indent(indent);
      } else if (c != '\r') {
        result.push_back(c);
      }
    }
    fail("this ''' string is never closed", start, "add a closing '''");
  }

  // true, false, null and numbers end at a comma, a closing bracket or a
  // comment; anything else is a string up to the end of its line, commas and
  // brackets included.
  decltype(Node::value) read_unquoted() {
    const std::size_t start = at_;
    if (std::string_view("{}[],:").find(peek()) != std::string_view::npos) {
      fail(fmt::format("found '{}' where a value was expected", peek()), at_);
    }
    const auto line_ends = [&] {
      return at_end() || peek() == '\n' || peek() == '\r';
    };
    while (!line_ends() && peek() != ',' && peek() != '}' && peek() != ']' &&
           peek() != '#' && !starts_with("//") && !starts_with("/*")) {
      ++at_;
    }
    const std::string_view word = trimmed(text_.substr(start, at_ - start));
    if (word == "null") {
      return std::monostate{};
    }
    if (word == "true" || word == "false") {
      return word == "true";
    }
    if (is_json_number(word)) {
      return read_number(word, start);
    }
    while (!line_ends()) {
      ++at_;
    }
    return std::string(trimmed(text_.substr(start, at_ - start)));
  }

  decltype(Node::value) read_number(std::string_view word, std::size_t start) {
    const bool whole = word.find_first_of(".eE") == std::string_view::npos;
    if (whole) {
      if (const auto integer = parse_integer(word)) {
        return *integer;
      }
      fail(fmt::format("{} is out of range", word), start);
    }
    if (const auto real = parse_real(word)) {
      return *real;
    }
    fail(fmt::format("{} is out of range", word), start);
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t at_ = 0;
  std::size_t counted_ = 0;
  std::size_t line_start_ = 0;
  Position place_{1, 1};
};

} // namespace

Node parse_hjson(std::string_view text, std::string_view name) {
  return HjsonReader(text, name).read();
}

Node read_hjson_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw ConfigError({.what = "is a folder, not a file", .where = path});
  }
  if (std::filesystem::exists(path, ignored)) {
    try { // the stream would wait for whoever writes to a named pipe
      static_cast<void>(open_regular_file(path, O_RDONLY));
    } catch (const DataError& error) {
      throw ConfigError(error.problem());
    }
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw ConfigError(
        {.what = "cannot open this file",
         .where = path,
         .values = std::strerror(errno),
         .remedy = "check the path"});
  }
  std::string text;
  std::array<char, 65536> piece;
  while (file && text.size() <= longest) { // parse_hjson refuses longer ones
    file.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) {
    throw ConfigError({.what = "cannot read this file", .where = path});
  }
  return parse_hjson(text, path);
}

} // namespace cairn::config
