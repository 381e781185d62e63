#include <cairn/config/node.h>

#include "config/table/printable.h"

#include <fmt/format.h>

namespace cairn::config {

std::string Place::text() const {
  if (file.empty()) {
    return printable(name);
  }
  if (position.line == 0) {
    return fmt::format("{} ({})", file, printable(name));
  }
  return fmt::format(
      "{}:{}:{} ({})",
      file,
      position.line,
      position.column,
      printable(name));
}

} // namespace cairn::config
