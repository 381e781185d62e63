#include "text/schemes/bpe/char_classes.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace cairn::text {
namespace {

constexpr std::size_t code_point_count = 0x110000;

} // namespace

CharClasses::CharClasses() {
  std::vector<CharClass> flat(code_point_count, CharClass::other);
  const auto fill =
      [](const void* table, UChar32 start, UChar32 limit, UCharCategory type) {
        const auto mask = U_MASK(type);
        const auto value = (mask & U_GC_L_MASK) != 0 ? CharClass::letter
            : (mask & U_GC_N_MASK) != 0              ? CharClass::number
                                                     : CharClass::other;
        auto* classes = static_cast<CharClass*>(const_cast<void*>(table));
        std::fill(classes + start, classes + limit, value);
        return static_cast<UBool>(true);
      };
  u_enumCharTypes(fill, flat.data());
  // All White_Space characters are at or below this, and none is a letter or
  // number.
  for (char32_t c = 0; c <= 0x3000; ++c) {
    if (u_isUWhiteSpace(static_cast<UChar32>(c)) != 0) {
      flat[c] = CharClass::space;
    }
  }
  std::unordered_map<std::string_view, std::uint16_t> known;
  std::string_view last;
  for (std::size_t page = 0; page < page_of_.size(); ++page) {
    const CharClass* const classes = flat.data() + page * page_size;
    const std::string_view content(
        reinterpret_cast<const char*>(classes),
        page_size);
    if (content == last) { // true for thousands of pages
      page_of_[page] = page_of_[page - 1];
      continue;
    }
    last = content;
    const auto [found, added] =
        known.try_emplace(content, static_cast<std::uint16_t>(pages_.size()));
    if (added) {
      std::copy_n(classes, page_size, pages_.emplace_back().begin());
    }
    page_of_[page] = found->second;
  }
}

} // namespace cairn::text
