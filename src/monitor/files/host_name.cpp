#include "monitor/files/host_name.h"

#include <unistd.h>

#include <array>

namespace cairn::monitor {

std::string host_name() {
  std::array<char, 256> name{};
  // The last byte stays zero, whatever gethostname() does with long names.
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  return name.data();
}

} // namespace cairn::monitor
