#include "text/sentences/punkt_words.h"

#include <algorithm>

namespace cairn::text::punkt {
namespace {

std::size_t run_of(char c, std::string_view line, std::size_t at) {
  const std::size_t end = line.find_first_not_of(c, at);
  return std::min(end, line.size()) - at;
}

/// The length of `--`, `..` or `. . .` (and longer) at `at`, or 0.
std::size_t repeated_punctuation(std::string_view line, std::size_t at) {
  const char c = line[at];
  if (c != '-' && c != '.') {
    return 0;
  }
  if (const std::size_t run = run_of(c, line, at); run >= 2) {
    return run;
  }
  if (c == '-') {
    return 0;
  }
  // Periods with one space between them. The run ends with a period, so `end`
  // is after the last period reached.
  std::size_t end = at + 1;
  for (int periods = 1;; ++periods) {
    const std::size_t space =
        end < line.size() ? python::space_at(line, end) : 0;
    if (space == 0 || end + space >= line.size() || line[end + space] != '.') {
      return periods >= 3 ? end - at : 0;
    }
    end += space + 1;
  }
}

bool ends_before(std::string_view line, std::size_t at) {
  return at == line.size() || is_a(not_in_words, line[at]) ||
      python::space_at(line, at) != 0 || repeated_punctuation(line, at) != 0;
}

std::size_t word_length(std::string_view line) {
  if (const std::size_t run = repeated_punctuation(line, 0); run > 0) {
    return run;
  }
  std::size_t end = 1;
  if (is_a(starts_no_word, line[0])) {
    return end;
  }
  for (; end < line.size(); ++end) {
    if (is_a(may_end_word, line[end]) &&
        (ends_before(line, end) ||
         (line[end] == ',' && ends_before(line, end + 1)))) {
      break;
    }
  }
  return end;
}

} // namespace

std::string_view Words::next() {
  line_.remove_prefix(python::skip_space(line_, 0));
  while (line_.empty()) {
    if (text_.empty()) {
      return {};
    }
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    line_ = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    line_.remove_prefix(python::skip_space(line_, 0));
  }
  const std::string_view word = line_.substr(0, word_length(line_));
  line_.remove_prefix(word.size());
  return word;
}

} // namespace cairn::text::punkt
