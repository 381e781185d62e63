#include "launch/supervise/sentinel.h"

#include "launch/supervise/process_sweep.h"

#include <cairn/base/error.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace cairn::launch {
namespace {

/// Closes all descriptors but one. An inherited pipe of the launcher would keep
/// its readers waiting after the launcher's end.
void close_all_but(int kept) {
  std::vector<int> open;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end;
       entry.increment(error)) {
    open.push_back(std::atoi(entry->path().filename().c_str()));
  }
  for (const int fd : open) {
    if (fd != kept) {
      ::close(fd);
    }
  }
  for (int fd = 0; fd <= 2; ++fd) {
    if (fd != kept) {
      const int null = ::open("/dev/null", O_RDWR);
      if (null >= 0 && null != fd) {
        ::dup2(null, fd);
        ::close(null);
      }
    }
  }
}

/// Takes the marks of another launcher's job off this process, if the launcher
/// is itself a process of such a job: when both launchers are killed, the other
/// sentinel must not end this one before its work.
void leave_outer_job() {
  rlimit locks{};
  if (::getrlimit(RLIMIT_LOCKS, &locks) == 0) {
    locks.rlim_cur = locks.rlim_max;
    ::setrlimit(RLIMIT_LOCKS, &locks);
  }
  const std::string mark = std::string(launch_id_variable) + "=";
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::string_view(*entry).starts_with(mark)) {
      std::memset(*entry, 0, std::strlen(*entry)); // /proc shows this memory
    }
  }
}

[[noreturn]] void watch(int line, std::string_view launch_id) {
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr); // only SIGKILL ends a sentinel
  ::setsid();
  ::prctl(PR_SET_NAME, "cairn-sentinel");
  leave_outer_job();
  close_all_but(line); // tells the launcher as well that we have left
  char done = 0;
  ssize_t got = 0;
  do {
    got = ::read(line, &done, 1);
  } while (got < 0 && errno == EINTR);
  if (got == 0) {
    sweep_processes(
        launch_id,
        {},
        std::chrono::steady_clock::now() + std::chrono::seconds(10));
  }
  ::_exit(0);
}

} // namespace

Sentinel::Sentinel(std::string_view launch_id) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) {
    throw Error({.what = "cannot make a pipe", .values = std::strerror(errno)});
  }
  const UniqueFd read(fds[0]);
  line_ = UniqueFd(fds[1]);
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) {
    throw Error({.what = "cannot make a pipe", .values = std::strerror(errno)});
  }
  const UniqueFd left(fds[0]);
  UniqueFd leaves(fds[1]);
  pid_ = ::fork();
  if (pid_ == 0) {
    watch(read.get(), launch_id);
  }
  if (pid_ < 0) {
    throw Error(
        {.what = "cannot start a process", .values = std::strerror(errno)});
  }
  // Ranks start once the sentinel has left an outer job, whose own sentinel
  // could otherwise end it, and nobody would end their workers.
  leaves.reset();
  char none = 0;
  while (::read(left.get(), &none, 1) < 0 && errno == EINTR) {
  }
}

Sentinel::~Sentinel() {
  // Without this byte the sentinel would take our end for a crash. If the
  // sentinel is gone, SIGPIPE does no harm: it is ignored while a job runs.
  [[maybe_unused]] const auto written = ::write(line_.get(), "", 1);
  line_.reset();
  ::waitpid(pid_, nullptr, 0);
}

} // namespace cairn::launch
