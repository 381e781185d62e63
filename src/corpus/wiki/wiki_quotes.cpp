#include "corpus/wiki/wiki_markup.h"

#include <algorithm>
#include <array>

namespace cairn::corpus {
namespace {

/// One line. Runs of two or more apostrophes are marks; apostrophes beyond the
/// longest mark stay in front of it as text.
class LineQuotes {
 public:
  explicit LineQuotes(std::string_view line) : line_(line) {
    for (std::size_t at = line.find("''"); at != std::string_view::npos;) {
      const std::size_t end =
          std::min(line.find_first_not_of('\'', at), line.size());
      fives_ += end - at >= 5 ? 1 : 0;
      at = line.find("''", end);
    }
  }

  void append_to(std::string& out) {
    std::size_t at = 0;
    std::size_t seen_fives = 0;
    while (at < line_.size()) {
      const std::size_t begin = std::min(line_.find("''", at), line_.size());
      out.append(line_, at, begin - at);
      at = std::min(line_.find_first_not_of('\'', begin), line_.size());
      const std::size_t length = at - begin;
      if (length >= 5) {
        out.append(length - 5, '\'');
        // A pair of fives makes the words between them bold and italic; these
        // words need no quotation marks. A five without a partner begins or
        // ends both.
        if (++seen_fives == fives_ && fives_ % 2 == 1) {
          put_mark(out, at);
        }
      } else if (length == 4) {
        out += '\'';
      } else if (length == 2) {
        put_mark(out, at);
      }
    }
  }

 private:
  /// Appends a quotation mark, unless the words already have one.
  void put_mark(std::string& out, std::size_t next) const {
    const bool follows = next < line_.size() && line_[next] == '"';
    if (!out.ends_with('"') && !follows) {
      out += '"';
    }
  }

  std::string_view line_;
  std::size_t fives_ = 0;
};

} // namespace

std::string without_quotes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    LineQuotes(text.substr(at, end - at)).append_to(out);
    if (end < text.size()) {
      out += '\n';
    }
    at = end + 1;
  }
  return out;
}

std::string without_switches(std::string_view text) {
  static constexpr std::array<std::string_view, 24> switches{
      "ARCHIVEDTALK",
      "DISAMBIG",
      "END",
      "EXPECTUNUSEDCATEGORY",
      "EXPECTUNUSEDTEMPLATE",
      "FORCETOC",
      "HIDDENCAT",
      "INDEX",
      "NEWSECTIONLINK",
      "NOCC",
      "NOCONTENTCONVERT",
      "NOEDITSECTION",
      "NOGALLERY",
      "NOGLOBAL",
      "NOINDEX",
      "NONEWSECTIONLINK",
      "NOTALK",
      "NOTC",
      "NOTITLECONVERT",
      "NOTOC",
      "START",
      "STATICREDIRECT",
      "TOC",
      "USENAMES"};
  static_assert(std::is_sorted(switches.begin(), switches.end()));
  constexpr std::size_t longest = 24;
  std::string out;
  out.reserve(text.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = std::min(text.find("__", at), text.size());
    out.append(text, at, begin - at);
    if (begin == text.size()) {
      break;
    }
    const std::string_view rest = text.substr(begin + 2, longest);
    const std::size_t end = rest.find("__");
    if (end != std::string_view::npos &&
        std::binary_search(
            switches.begin(),
            switches.end(),
            rest.substr(0, end))) {
      at = begin + 2 + end + 2;
    } else {
      out += '_';
      at = begin + 1;
    }
  }
  return out;
}

} // namespace cairn::corpus
