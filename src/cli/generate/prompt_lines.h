#pragma once

#include <cstddef>
#include <istream>
#include <optional>
#include <string>
#include <vector>

namespace cairn::cli {

struct PromptLine {
  std::size_t number;
  std::string text;
};

/// The next line that is not empty, without its end; none if there is no more.
/// Counts `number` on.
std::optional<PromptLine> next_prompt_line(
    std::istream& stream,
    std::size_t& number);

/// All of a file. Throws DataError if none holds a prompt.
std::vector<PromptLine> read_prompt_lines(const std::string& path);

} // namespace cairn::cli
