#include "launch/internal/free_port.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace cairn::launch {

int free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!fd || ::bind(fd.get(), generic, size) != 0 ||
      ::getsockname(fd.get(), generic, &size) != 0) {
    throw CommError(
        {.what = "no free TCP port was found",
         .values = std::strerror(errno),
         .remedy = "choose one with --master_port"});
  }
  return ntohs(address.sin_port);
}

} // namespace cairn::launch
