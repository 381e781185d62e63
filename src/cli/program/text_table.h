#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {

/// The text on one line, without characters that move the cursor.
std::string shown_text(std::string_view text);

/// Rows under a title line, as wide as their widest cell.
class TextTable {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit TextTable(std::vector<Column> columns);

  /// Adds a row, a cell for each column; any content is shown on one line.
  void add(const std::vector<std::string>& cells);

  /// The table. Lines wider than `width` lose the middle of their first cell; 0
  /// allows any width.
  std::string text(std::size_t width) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Columns of the terminal that we write to; 0 if it is not a terminal.
std::size_t output_width();

} // namespace cairn::cli
