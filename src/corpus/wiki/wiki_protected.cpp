#include "corpus/wiki/wiki_markup.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace cairn::corpus {

std::string with_protected(std::string_view text, const ProtectedTexts& texts) {
  using Kind = ProtectedText::Kind;
  std::string out;
  out.reserve(text.size());
  int formulas = 0;
  int codes = 0;
  std::map<std::pair<Kind, std::string_view>, int> numbers;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = std::min(text.find('\1', at), text.size());
    out.append(text, at, begin - at);
    if (begin == text.size()) {
      break;
    }
    const std::size_t end = text.find('\2', begin);
    std::size_t index = 0;
    for (const char digit : text.substr(begin + 1, end - begin - 1)) {
      index = index * 10 + static_cast<std::size_t>(digit - '0');
    }
    const auto& [kind, content] = texts[index];
    if (kind == Kind::literal) {
      out += content;
    } else {
      int& count = kind == Kind::formula ? formulas : codes;
      const int number =
          numbers.try_emplace({kind, content}, ++count).first->second;
      fmt::format_to(
          std::back_inserter(out),
          "{}_{}",
          kind == Kind::formula ? "formula" : "codice",
          number);
    }
    at = end + 1;
  }
  return out;
}

} // namespace cairn::corpus
