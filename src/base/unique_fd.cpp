#include <cairn/base/file.h>

#include <unistd.h>

namespace cairn::inline base {

void UniqueFd::reset(int fd) noexcept {
  const int old = std::exchange(fd_, fd);
  if (old >= 0 && old != fd) {
    // Not repeated after EINTR: Linux has freed the number by then, and another
    // thread may hold it already.
    ::close(old);
  }
}

} // namespace cairn::base
