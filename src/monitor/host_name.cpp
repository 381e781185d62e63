#include "monitor/host_name.h"

#include <unistd.h>

#include <array>

namespace cairn::monitor {

std::string host_name() {
  std::array<char, 256> name{};
  // A last zero is there whatever gethostname() does with long names.
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "localhost";
  }
  return name.data();
}

} // namespace cairn::monitor
