#include "launch/internal/job_secret.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace cairn::launch {

std::string new_job_secret() {
  std::array<unsigned char, 32> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) !=
      static_cast<ssize_t>(bytes.size())) {
    throw Error(
        {.what = "the system gives no random bytes",
         .values = std::strerror(errno)});
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string secret_from_stdin() {
  constexpr std::size_t longest = 4096;
  std::string secret;
  while (secret.size() < longest) {
    char byte = 0;
    const ssize_t got = ::read(0, &byte, 1);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got == 1 && byte == '\n') {
      return secret;
    }
    if (got != 1) {
      break;
    }
    secret += byte;
  }
  throw Error({.what = "the launcher that started this one sends no secret"});
}

} // namespace cairn::launch
