#include "evaluate/detokenizer.h"

#include "text/internal/python_text.h"

#include <cstddef>
#include <utility>

namespace cairn::evaluate {
namespace {

namespace python = text::python;

void replace(std::string& text, std::string_view from, std::string_view to) {
  std::size_t found = text.find(from);
  if (found == std::string::npos) {
    return;
  }
  std::string result;
  result.reserve(text.size());
  std::size_t done = 0;
  for (; found != std::string::npos; found = text.find(from, done)) {
    result.append(text, done, found - done);
    result += to;
    done = found + from.size();
  }
  result.append(text, done);
  text = std::move(result);
}

/// Removes the blanks behind every `open` and before the `close` that follows
/// it. An opening without an end is left as it is.
void close_up(std::string& text, char open, char close) {
  const std::string_view all = text;
  std::string result;
  result.reserve(all.size());
  std::size_t done = 0;
  while (true) {
    const std::size_t begin = all.find(open, done);
    if (begin == std::string_view::npos) {
      break;
    }
    const std::size_t end = all.find(close, begin + 1);
    if (end == std::string_view::npos) {
      break;
    }
    result += all.substr(done, begin + 1 - done);
    result += python::stripped(all.substr(begin + 1, end - begin - 1));
    result += close;
    done = end + 1;
  }
  result += all.substr(done);
  text = std::move(result);
}

/// The one rule of Megatron's that was meant otherwise: its slashes come from
/// another language, so that it matches nothing but a digit between slashes,
/// for which it writes the pattern itself.
void replace_quoted_digit(std::string& text) {
  constexpr std::string_view before = "/' ";
  for (std::size_t at = text.find(before); at != std::string::npos;
       at = text.find(before, at + 1)) {
    const std::size_t digit = at + before.size();
    if (digit + 1 < text.size() && text[digit] >= '0' && text[digit] <= '9' &&
        text[digit + 1] == '/') {
      text.replace(at, before.size() + 2, "/'[0-9]/");
      at += 7;
    }
  }
}

void wikitext(std::string& text) {
  replace(text, "s '", "s'");
  replace_quoted_digit(text);
  // Signs within numbers and compounds.
  replace(text, " @-@ ", "-");
  replace(text, " @,@ ", ",");
  replace(text, " @.@ ", ".");
  for (const char sign : {':', ';', '.', '!', '?', ','}) {
    replace(text, std::string{' ', sign, ' '}, std::string{sign, ' '});
  }
  close_up(text, '(', ')');
  close_up(text, '[', ']');
  close_up(text, '{', '}');
  close_up(text, '"', '"');
  close_up(text, '\'', '\'');
  // Headings.
  replace(text, "= = = =", "====");
  replace(text, "= = =", "===");
  replace(text, "= =", "==");
  replace(text, " \u00b0 ", "\u00b0");
  replace(text, " \n", "\n");
  replace(text, "\n ", "\n");
  replace(text, " N ", " 1 ");
  replace(text, " 's", "'s");
}

void ptb(std::string& text) {
  replace(text, " '", "'");
  replace(text, " \n", "\n");
  replace(text, "\n ", "\n");
  replace(text, " n't", "n't");
  replace(text, " N ", "1 ");
  replace(text, "$ 1", "$1");
  replace(text, "# 1", "#1");
}

} // namespace

std::string detokenized(std::string text, Detokenizer how) {
  switch (how) {
    case Detokenizer::wikitext:
      wikitext(text);
      break;
    case Detokenizer::ptb:
      ptb(text);
      break;
    case Detokenizer::none:
      break;
  }
  return text;
}

std::string_view name_of(Detokenizer how) {
  switch (how) {
    case Detokenizer::wikitext:
      return "wikitext";
    case Detokenizer::ptb:
      return "ptb";
    case Detokenizer::none:
      break;
  }
  return "none";
}

} // namespace cairn::evaluate
