#include "text/char_classes.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <map>

namespace cairn::text {
namespace {

constexpr std::size_t code_points = 0x110000;

} // namespace

CharClasses::CharClasses() {
  std::vector<CharClass> flat(code_points, CharClass::other);
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
  // White_Space is a short list below this, and no letter or number is in it.
  for (char32_t c = 0; c <= 0x3000; ++c) {
    if (u_isUWhiteSpace(static_cast<UChar32>(c)) != 0) {
      flat[c] = CharClass::space;
    }
  }
  std::map<Page, std::uint16_t> known;
  for (std::size_t page = 0; page < page_of_.size(); ++page) {
    Page content;
    std::copy_n(flat.begin() + page * 256, 256, content.begin());
    const auto [found, added] =
        known.try_emplace(content, static_cast<std::uint16_t>(pages_.size()));
    if (added) {
      pages_.push_back(content);
    }
    page_of_[page] = found->second;
  }
}

} // namespace cairn::text
