#include "launch/supervise/output_stream.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>

namespace cairn::launch {

void OutputStream::write(std::string_view line) {
  while (!line.empty() && !closed_) {
    if (wait_ && !wait_(fd_)) {
      return;
    }
    // A pipe that is ready for writing takes this much without blocking.
    const auto piece = wait_ ? line.substr(0, PIPE_BUF) : line;
    const auto written = ::write(fd_, piece.data(), piece.size());
    if (written >= 0) {
      line.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
      ::poll(&ready, 1, -1);
    } else if (errno == EPIPE) {
      closed_ = true;
    } else if (errno != EINTR) {
      // A full disk under a log must not end a training run.
      if (!complained_) {
        complained_ = true;
        logger_.warning(
            "what ranks write to {} is being lost: {}",
            name_,
            std::strerror(errno));
      }
      return;
    }
  }
}

} // namespace cairn::launch
