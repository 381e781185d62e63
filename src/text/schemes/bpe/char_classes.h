#pragma once

#include "base/internal/utf8.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::text {

/// Character classes that the patterns of byte-level schemes distinguish:
/// \p{L}, \p{N}, \s and the rest.
enum class CharClass : std::uint8_t { other, letter, number, space };

/// The class of every code point, from ICU's tables, in two levels: most pages
/// of 256 code points are alike and stored once.
class CharClasses {
 public:
  CharClasses();

  CharClass of(char32_t c) const { return pages_[page_of_[c >> 8]][c & 0xff]; }

  /// The class of a character of any bytes. A byte that is not UTF-8 is
  /// `other`.
  CharClass of(Utf8Char c) const {
    return c.valid() ? of(c.code_point) : CharClass::other;
  }

 private:
  static constexpr std::size_t page_size = 256;
  using Page = std::array<CharClass, page_size>;

  std::array<std::uint16_t, 0x1100> page_of_{};
  std::vector<Page> pages_;
};

} // namespace cairn::text
