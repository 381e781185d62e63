#include "launch/internal/job_secret.h"

#include "base/internal/job_secret.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace cairn::launch {
namespace {

constexpr std::size_t longest = 1024;

} // namespace

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

void check_secret(std::string_view secret) {
  const bool broken = secret.find_first_of("\r\n") != std::string_view::npos;
  if (broken || secret.size() > longest) {
    throw ConfigError(
        {.what = broken ? std::string("the secret has a line break")
                        : fmt::format(
                              "the secret has {} bytes, and {} at most are "
                              "taken",
                              secret.size(),
                              longest),
         .where = job_secret_variable,
         .remedy = "set another one, or none: the launcher makes one then"});
  }
}

std::string secret_from_stdin() {
  std::string secret;
  while (secret.size() <= longest) {
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
