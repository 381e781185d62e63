#include "launch/escaped.h"

#include <fmt/core.h>

#include <cstddef>

namespace cairn::launch {

std::string escaped(std::string_view text) {
  constexpr std::size_t longest = 100;
  std::string result = "\"";
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + (text.size() > longest ? "…\"" : "\"");
}

} // namespace cairn::launch
