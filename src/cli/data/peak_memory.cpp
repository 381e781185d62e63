#include "cli/data/peak_memory.h"

#include <sys/resource.h>

namespace cairn::cli {

std::uint64_t peak_memory() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
}

} // namespace cairn::cli
