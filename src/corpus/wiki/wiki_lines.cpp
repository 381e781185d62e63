#include "corpus/clean/unicode.h"
#include "corpus/wiki/wiki_markup.h"
#include "data/internal/line_reader.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

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

/// The line with single blanks, at most three dots in a row, and without the
/// leftovers of removed markup.
std::string tidy(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  std::size_t open_bracket = std::string::npos;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    // "stones ." where a reference was removed, but not ".NET" or " ..."
    const bool ends_word = i + 1 == line.size() || line[i + 1] == ' ';
    if ((c == '.' || c == ',') && ends_word && out.ends_with(' ')) {
      out.pop_back();
    }
    switch (c) {
      case ' ':
      case '\t':
        if (!out.empty() && out.back() != ' ') {
          out += ' ';
        }
        break;
      case ';':
        out += c;
        break;
      case '.':
        open_bracket = std::string::npos;
        if (out.ends_with(',')) {
          out.back() = '.';
        } else if (!out.ends_with("...")) {
          out += '.';
        }
        break;
      case ',':
        if (!out.ends_with(',')) {
          out += ',';
        }
        break;
      case '(':
        open_bracket = out.size();
        out += c;
        break;
      case ')':
        if (open_bracket != std::string::npos &&
            is_hollow(std::string_view(out).substr(open_bracket + 1))) {
          out.resize(open_bracket);
          if (out.ends_with(' ')) {
            out.pop_back();
          }
        } else {
          out += c;
        }
        open_bracket = std::string::npos;
        break;
      default:
        if (open_bracket != std::string::npos &&
            open_bracket + 1 < out.size() &&
            is_hollow(std::string_view(out).substr(open_bracket + 1))) {
          out.resize(open_bracket + 1); // "(; born 1900)"
        }
        open_bracket = std::string::npos;
        out += c;
    }
  }
  while (out.ends_with(' ')) {
    out.pop_back();
  }
  return out;
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
