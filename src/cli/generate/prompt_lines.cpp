#include "cli/generate/prompt_lines.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <cstdint>
#include <sstream>
#include <string_view>
#include <utility>

namespace cairn::cli {

std::optional<PromptLine> next_prompt_line(
    std::istream& stream,
    std::size_t& number) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  for (std::string text; std::getline(stream, text);) {
    ++number;
    if (number == 1 && text.starts_with(byte_order_mark)) {
      text.erase(0, byte_order_mark.size());
    }
    if (text.ends_with('\r')) {
      text.pop_back();
    }
    if (!text.empty()) {
      return PromptLine{number, text};
    }
  }
  return std::nullopt;
}

std::vector<PromptLine> read_prompt_lines(const std::string& path) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  std::istringstream text(read_file(path, most));
  std::vector<PromptLine> lines;
  std::size_t number = 0;
  while (auto line = next_prompt_line(text, number)) {
    lines.push_back(std::move(*line));
  }
  if (lines.empty()) {
    throw DataError({.what = "no line holds a prompt", .where = path});
  }
  return lines;
}

} // namespace cairn::cli
