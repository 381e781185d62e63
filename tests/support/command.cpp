#include "support/command.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace cairn::testing {

CommandResult run_command(const std::vector<std::string>& argv) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe(out.data()) != 0 || ::pipe(err.data()) != 0) {
    throw std::runtime_error("pipe");
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    for (const int fd : {out[0], out[1], err[0], err[1]}) {
      ::close(fd);
    }
    std::vector<char*> pointers;
    for (const std::string& argument : argv) {
      pointers.push_back(const_cast<char*>(argument.c_str()));
    }
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);

  CommandResult result{};
  std::array<pollfd, 2> polled{
      {{.fd = out[0], .events = POLLIN}, {.fd = err[0], .events = POLLIN}}};
  std::array<std::string*, 2> texts{&result.out, &result.err};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    ::poll(polled.data(), polled.size(), -1);
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) {
        continue;
      }
      std::array<char, 4096> bytes{};
      const ssize_t count = ::read(polled[i].fd, bytes.data(), bytes.size());
      if (count > 0) {
        texts[i]->append(bytes.data(), static_cast<std::size_t>(count));
      } else {
        ::close(polled[i].fd);
        polled[i].fd = -1;
      }
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit_code =
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

} // namespace cairn::testing
