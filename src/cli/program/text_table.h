#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {

/// On one line, with nothing in it that moves the cursor.
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

  /// A cell for each column; whatever is in there, it is shown on one line.
  void add(const std::vector<std::string>& cells);

  /// Lines wider than that lose the middle of their first cell; 0: none does.
  std::string text(std::size_t width) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Columns of the terminal that we write to; 0 where it is none.
std::size_t output_width();

} // namespace cairn::cli
