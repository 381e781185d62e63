#include "base/internal/wrapped_text.h"

#include <algorithm>

namespace cairn::inline base {

std::string wrapped_text(
    std::string_view text,
    std::size_t indent,
    std::size_t width) {
  std::string result;
  std::size_t column = indent;
  const auto new_line = [&] {
    result += "\n" + std::string(indent, ' ');
    column = indent;
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (column > indent && column + 1 + end > width) {
      new_line();
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += text.substr(0, end);
    column += end;
    if (end < text.size() && text[end] == '\n') {
      new_line();
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

} // namespace cairn::base
