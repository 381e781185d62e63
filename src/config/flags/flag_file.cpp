#include "config/internal/flag_file.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace cairn::config {
namespace {

constexpr std::uint64_t longest_flag_file = 1 << 20;

class FlagFileReader {
 public:
  FlagFileReader(std::string_view text, std::string_view path)
      : text_(text), path_(path) {}

  std::vector<std::string> words() {
    std::vector<std::string> result;
    while (skip_to_word()) {
      result.push_back(word());
    }
    return result;
  }

 private:
  static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
  }

  bool skip_to_word() {
    while (at_ < text_.size() && (is_space(text_[at_]) || text_[at_] == '#')) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        next();
      }
    }
    return at_ < text_.size();
  }

  char next() {
    const char c = text_[at_++];
    const bool control = static_cast<unsigned char>(c) < ' ' || c == 0x7f;
    if (control && !is_space(c)) {
      fail("a control character in a file of flags");
    }
    line_ += c == '\n' ? 1 : 0;
    return c;
  }

  std::string word() {
    std::string result;
    while (at_ < text_.size() && !is_space(text_[at_])) {
      const char c = next();
      if (c == '\'' || c == '"') {
        add_quoted(c, result);
      } else {
        result += c;
      }
    }
    return result;
  }

  void add_quoted(char quote, std::string& result) {
    const std::size_t begun = line_;
    while (at_ < text_.size()) {
      const char c = next();
      if (c == quote) {
        return;
      }
      result += c;
    }
    line_ = begun;
    fail(fmt::format("a quote {} without its end", quote));
  }

  [[noreturn]] void fail(std::string what) const {
    throw ConfigError(
        {.what = std::move(what), .where = fmt::format("{}:{}", path_, line_)});
  }

  std::string_view text_;
  std::string_view path_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

} // namespace

std::vector<std::string> with_flag_files(
    const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const std::string& word : words) {
    if (!word.starts_with('@')) {
      result.push_back(word);
      continue;
    }
    const std::string path = word.substr(1);
    if (path.starts_with('@')) {
      result.push_back(path);
      continue;
    }
    if (path.empty()) {
      throw ConfigError(
          {.what = "no file is named",
           .where = word,
           .remedy = "write @FILE for the flags in a file"});
    }
    std::string text;
    try {
      text = read_file(path, longest_flag_file);
    } catch (const DataError& error) { // the command line is wrong, not data
      throw ConfigError(error.problem());
    }
    for (std::string& each : FlagFileReader(text, path).words()) {
      result.push_back(std::move(each));
    }
  }
  return result;
}

std::vector<std::string> written_out(std::vector<std::string> words) {
  for (std::string& word : words) {
    if (word.starts_with('@')) {
      word.insert(word.begin(), '@');
    }
  }
  return words;
}

} // namespace cairn::config
