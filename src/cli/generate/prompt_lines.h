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

/// The next line that is not empty, without its end; none if there are no more.
/// Adds the lines that were read to `number`.
std::optional<PromptLine> next_prompt_line(
    std::istream& stream,
    std::size_t& number);

/// The prompts of a file. Throws DataError if there is none.
std::vector<PromptLine> read_prompt_lines(const std::string& path);

} // namespace cairn::cli
