#include "cli/program/text_table.h"

#include "base/internal/terminal.h"
#include "base/internal/utf8.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace cairn::cli {
namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t least_name = 16;

/// Keeps the beginning and the end, which tell names apart.
std::string without_middle(const std::string& text, std::size_t width) {
  if (text_columns(text) <= width || text_columns(text) != text.size()) {
    return text;
  }
  const std::size_t end = (width - 1) * 2 / 3;
  return text.substr(0, width - 1 - end) + "…" + text.substr(text.size() - end);
}

} // namespace

std::string shown_text(std::string_view text) {
  std::string line;
  for_each_utf8_run(
      text,
      [&](std::string_view valid) {
        for (const char c : valid) {
          if (c == '\n') {
            line += "⏎";
          } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
          } else {
            line += c;
          }
        }
      },
      [&](std::string_view invalid) {
        for (const char c : invalid) {
          line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
      });
  return line;
}

TextTable::TextTable(std::vector<Column> columns)
    : columns_(std::move(columns)) {
  std::vector<std::string> titles;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
  }
  add(titles);
}

void TextTable::add(const std::vector<std::string>& cells) {
  std::vector<std::string> row;
  for (const std::string& cell : cells) {
    row.push_back(shown_text(cell));
  }
  row.resize(columns_.size());
  rows_.push_back(std::move(row));
}

std::string TextTable::text(std::size_t width) const {
  std::vector<std::size_t> widths(columns_.size());
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], text_columns(row[i]));
    }
  }
  std::size_t others = 0;
  for (std::size_t i = 1; i < widths.size(); ++i) {
    others += widths[i] + gap;
  }
  if (width > 0 && widths[0] + others > width) {
    widths[0] = std::max(least_name, width - std::min(width, others));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell =
          i == 0 ? without_middle(row[i], widths[0]) : row[i];
      const std::string space(
          widths[i] - std::min(widths[i], text_columns(cell)),
          ' ');
      line += columns_[i].align == Align::right ? space + cell : cell + space;
      line += std::string(gap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::size_t output_width() {
  winsize size{};
  return ::isatty(1) == 1 && ::ioctl(1, TIOCGWINSZ, &size) == 0 ? size.ws_col
                                                                : 0;
}

} // namespace cairn::cli
