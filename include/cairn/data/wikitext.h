#pragma once

#include <cairn/base/mapped_file.h>

#include <cstddef>
#include <filesystem>
#include <string_view>
#include <vector>

namespace cairn::data {

struct WikiTextOptions {
  bool headings = true; ///< keep lines like " = = Career = = "
};

/// The level of a heading: 1 for " = Title = ", 2 for " = = Section = = " and
/// so on; 0 for a paragraph.
int wikitext_heading_level(std::string_view line);

/// The non-blank lines of a WikiText file without their line ends, as views
/// into `text`. Throws DataError, with `name` and the line, for bytes that are
/// not UTF-8.
std::vector<std::string_view> wikitext_lines(
    std::string_view text,
    std::string_view name,
    WikiTextOptions options = {});

/// A file of WikiText-2 or WikiText-103, such as wiki.train.tokens: a paragraph
/// or a heading on each line, the words separated by spaces.
class WikiText {
 public:
  explicit WikiText(
      const std::filesystem::path& file,
      WikiTextOptions options = {});

  const std::vector<std::string_view>& lines() const noexcept { return lines_; }

 private:
  MappedFile file_;
  std::vector<std::string_view> lines_;
};

} // namespace cairn::data
