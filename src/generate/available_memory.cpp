#include "generate/available_memory.h"

#include "base/internal/control_group.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace cairn::generate {

std::int64_t available_memory() {
  std::int64_t bytes = std::int64_t{1} << 30U; // where the system does not tell
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view name = "MemAvailable:";
    if (line.starts_with(name)) {
      bytes = std::stoll(line.substr(name.size())) * 1024;
    }
  }
  const auto limit = ControlGroupLimits::read().memory_bytes;
  return limit ? std::min(bytes, static_cast<std::int64_t>(*limit)) : bytes;
}

} // namespace cairn::generate
