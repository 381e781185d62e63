#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::monitor {

/// A canvas of dots; one character of a terminal holds two by four.
class BrailleCanvas {
 public:
  BrailleCanvas(std::size_t columns, std::size_t rows)
      : columns_(columns), rows_(rows), cells_(columns * rows) {}

  std::size_t width() const noexcept { return 2 * columns_; } ///< in dots
  std::size_t height() const noexcept { return 4 * rows_; }

  /// Sets a dot, counted from the upper left corner.
  void set(std::size_t x, std::size_t y) {
    // Unicode numbers the upper three dots of each column first.
    constexpr std::uint8_t bits[2][4] = {
        {0x01, 0x02, 0x04, 0x40},
        {0x08, 0x10, 0x20, 0x80}};
    cells_[y / 4 * columns_ + x / 2] |= bits[x % 2][y % 4];
  }

  /// The character of a cell; a blank if it has no dots.
  std::string cell(std::size_t column, std::size_t row) const {
    const std::uint8_t dots = cells_[row * columns_ + column];
    if (dots == 0) {
      return " ";
    }
    // U+2800 + dots in UTF-8.
    return {
        '\xe2',
        static_cast<char>(0xa0 | dots >> 6),
        static_cast<char>(0x80 | (dots & 0x3f))};
  }

 private:
  std::size_t columns_, rows_;
  std::vector<std::uint8_t> cells_;
};

} // namespace cairn::monitor
