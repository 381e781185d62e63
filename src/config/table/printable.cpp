#include "config/table/printable.h"

#include <fmt/format.h>

namespace cairn::config {

std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result.push_back(c);
    }
  }
  return result;
}

} // namespace cairn::config
