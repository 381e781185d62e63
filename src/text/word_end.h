#pragma once

#include <cstddef>
#include <string_view>

namespace cairn::text {

/// The last place where a visible ASCII character is followed by a plain space;
/// 0 when there is none.
inline std::size_t last_word_end(std::string_view text) {
  for (std::size_t at = text.rfind(' ');
       at != 0 && at != std::string_view::npos;
       at = text.rfind(' ', at - 1)) {
    if (text[at - 1] > ' ' && text[at - 1] < 0x7f) {
      return at;
    }
  }
  return 0;
}

} // namespace cairn::text
