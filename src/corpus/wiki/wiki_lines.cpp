#include "corpus/clean/unicode.h"
#include "corpus/wiki/wiki_markup.h"
#include "data/internal/line_reader.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <utility>

namespace cairn::corpus {
namespace {

bool has_word(std::string_view line) {
  std::size_t at = 0;
  while (at < line.size()) {
    const unsigned char byte = static_cast<unsigned char>(line[at]);
    if (byte < 0x80) {
      // A protected text counts as a word.
      if (std::isalnum(byte) != 0 || byte == '_' || byte == '\1') {
        return true;
      }
      ++at;
    } else if (::u_isalnum(static_cast<UChar32>(next_code_point(line, at)))) {
      return true;
    }
  }
  return false;
}

/// True for the inside of brackets such as "(; , )" from which templates were
/// removed.
bool is_hollow(std::string_view inside) {
  return inside.find_first_not_of(" ,;") == std::string_view::npos;
}

/// Builds a line with single blanks, at most three dots in a row, and without
/// the leftovers of removed markup.
class TidyLine {
 public:
  explicit TidyLine(std::size_t longest) { out_.reserve(longest); }

  void add(char c) {
    switch (c) {
      case ' ':
      case '\t':
        return add_blank();
      case ';':
        out_ += c;
        return;
      case '.':
        return add_dot();
      case ',':
        return add_comma();
      case '(':
        open_bracket_ = out_.size();
        out_ += c;
        return;
      case ')':
        return close_bracket();
      default:
        add_other(c);
    }
  }

  void drop_blank() {
    if (out_.ends_with(' ')) {
      out_.pop_back();
    }
  }

  std::string take() {
    while (out_.ends_with(' ')) {
      out_.pop_back();
    }
    return std::move(out_);
  }

 private:
  void add_blank() {
    if (!out_.empty() && out_.back() != ' ') {
      out_ += ' ';
    }
  }

  void add_dot() {
    open_bracket_ = none;
    if (out_.ends_with(',')) {
      out_.back() = '.';
    } else if (!out_.ends_with("...")) {
      out_ += '.';
    }
  }

  void add_comma() {
    if (!out_.ends_with(',')) {
      out_ += ',';
    }
  }

  void close_bracket() {
    if (open_bracket_ != none && is_hollow(in_bracket())) {
      out_.resize(open_bracket_);
      drop_blank();
    } else {
      out_ += ')';
    }
    open_bracket_ = none;
  }

  void add_other(char c) {
    if (open_bracket_ != none && is_hollow(in_bracket())) {
      out_.resize(open_bracket_ + 1); // "(; born 1900)"
    }
    open_bracket_ = none;
    out_ += c;
  }

  std::string_view in_bracket() const {
    return std::string_view(out_).substr(open_bracket_ + 1);
  }

  static constexpr std::size_t none = std::string::npos;
  std::string out_;
  std::size_t open_bracket_ = none; ///< a bracket with nothing in it so far
};

std::string tidy(std::string_view line) {
  TidyLine out(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    // "stones ." where a reference was removed, but not ".NET" or " ..."
    const bool ends_word = i + 1 == line.size() || line[i + 1] == ' ';
    if ((c == '.' || c == ',') && ends_word) {
      out.drop_blank();
    }
    out.add(c);
  }
  return out.take();
}

struct Heading {
  std::size_t level;
  std::string_view title;
};

std::optional<Heading> heading_of(std::string_view line) {
  const std::size_t before = std::min(line.find_first_not_of('='), line.size());
  const std::size_t last = line.find_last_not_of('=');
  if (before < 2 || last == std::string_view::npos) {
    return std::nullopt;
  }
  const std::size_t level = std::min(before, line.size() - last - 1);
  if (level < 2) {
    return std::nullopt;
  }
  std::string_view title = line.substr(level, line.size() - 2 * level);
  const std::size_t begin = title.find_first_not_of(' ');
  const std::size_t end = title.find_last_not_of(' ');
  return Heading{level, title.substr(begin, end - begin + 1)};
}

class LineTidier {
 public:
  explicit LineTidier(const WikiTextOptions& options) : options_(options) {}

  std::string run(std::string_view text) {
    while (!text.empty()) {
      const std::string line = tidy(data::take_line(text));
      if (has_word(line)) {
        add(line);
      }
    }
    return std::move(out_);
  }

 private:
  void add(std::string_view line) {
    if (const auto heading = heading_of(line)) {
      headings_.erase(headings_.lower_bound(heading->level), headings_.end());
      headings_[heading->level] = heading->title;
      return;
    }
    const bool item =
        std::string_view("*#;:").find(line[0]) != std::string_view::npos;
    if (item) {
      if (options_.lists) {
        line.remove_prefix(line.find_first_not_of("*#;: "));
        put_headings();
        put("- ", line);
      }
      return;
    }
    const bool residue = line[0] == '{' || line[0] == '|' || line[0] == '!' ||
        line.back() == '}';
    const bool aside = line[0] == '(' && line.back() == ')';
    if (!residue && !aside) {
      put_headings();
      put("", line);
    }
  }

  /// Writes the pending titles; a section gets its title once it has text.
  void put_headings() {
    for (const auto& [level, title] : headings_) {
      const bool ends = title.ends_with('!') || title.ends_with('?');
      put("", ends ? title : title + '.');
    }
    headings_.clear();
  }

  void put(std::string_view prefix, std::string_view line) {
    if (!out_.empty()) {
      out_ += '\n';
    }
    out_ += prefix;
    out_ += line;
  }

  const WikiTextOptions& options_;
  std::string out_;
  std::map<std::size_t, std::string> headings_; ///< by level
};

} // namespace

std::string tidy_lines(std::string_view text, const WikiTextOptions& options) {
  return LineTidier(options).run(text);
}

} // namespace cairn::corpus
