#include "distributed/start/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace cairn::distributed {

std::uint64_t allow_open_files(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return 0;
  }
  const std::uint64_t before = limit.rlim_cur;
  if (before >= wanted) {
    return before;
  }
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

} // namespace cairn::distributed
