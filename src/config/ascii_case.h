#pragma once

#include <string>
#include <string_view>

namespace cairn::config {

/// Lower case for A to Z only, whatever the locale.
inline std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

} // namespace cairn::config
