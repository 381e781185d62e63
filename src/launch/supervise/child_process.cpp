#include "launch/supervise/child_process.h"

#include "launch/escaped.h"

#include <cairn/base/error.h>

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace cairn::launch {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

[[noreturn]] void system_refuses(const char* what) {
  throw Error(
      {.what = fmt::format("cannot {}", what),
       .values = std::strerror(errno),
       .remedy = "see the limits on processes and open files (ulimit -u -n)"});
}

/// Moves a descriptor above 2. It lands on 0, 1 or 2 when the launcher itself
/// was started with those closed.
UniqueFd above_standard(UniqueFd fd) {
  if (fd.get() > 2) {
    return fd;
  }
  UniqueFd moved(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  if (!moved) {
    system_refuses("copy a file descriptor");
  }
  return moved;
}

Pipe make_pipe() {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) {
    system_refuses("make a pipe");
  }
  UniqueFd read(fds[0]);
  UniqueFd write(fds[1]);
  return {above_standard(std::move(read)), above_standard(std::move(write))};
}

void make_non_blocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) {
    result.push_back(const_cast<char*>(word.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

enum class Step { bind, exec };

/// The message to the parent from a child that could not become the program.
struct StartError {
  Step step;
  int error;
};

/// Everything that runs between fork and exec. All memory was allocated before:
/// only system calls are safe here.
struct ChildSetup {
  const char* path;
  char* const* arguments;
  char* const* environment;
  const cpu_set_t* cores; // nullptr: any
  std::size_t cores_bytes;
  const sigset_t* signal_mask;
  int input, output, error, report;
  std::array<int, 2> kept;  // descriptors that stay open; -1: none
  std::uint64_t lock_limit; // 0: unchanged
  pid_t parent;

  [[noreturn]] void fail(Step step) const {
    const StartError problem{step, errno};
    // This is the parent's only way to learn of it; if the parent is gone,
    // nobody needs to know.
    [[maybe_unused]] const auto written =
        ::write(report, &problem, sizeof problem);
    ::_exit(127);
  }

  /// Sets the lock limit. Where a lower hard limit forbids it, the process is
  /// known by its environment alone.
  void mark() const {
    rlimit locks{};
    if (lock_limit != 0 && ::getrlimit(RLIMIT_LOCKS, &locks) == 0) {
      locks.rlim_cur = lock_limit;
      ::setrlimit(RLIMIT_LOCKS, &locks);
    }
  }

  [[noreturn]] void become_program() const {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) {
      ::_exit(127); // the parent died before the line above
    }
    mark();
    ::signal(SIGPIPE, SIG_DFL); // the launcher ignores it
    ::sigprocmask(SIG_SETMASK, signal_mask, nullptr);
    if (cores != nullptr && ::sched_setaffinity(0, cores_bytes, cores) != 0) {
      fail(Step::bind);
    }
    ::dup2(input, 0);
    ::dup2(output, 1);
    ::dup2(error, 2);
    for (const int fd : kept) {
      if (fd >= 0) {
        ::fcntl(fd, F_SETFD, 0); // keep it open across exec
      }
    }
    ::execve(path, arguments, environment);
    fail(Step::exec);
  }
};

[[noreturn]] void throw_start_error(
    const StartError& problem,
    const std::filesystem::path& program) {
  if (problem.step == Step::bind) {
    throw ConfigError(
        {.what = "a rank cannot be bound to its cores",
         .values = std::strerror(problem.error),
         .remedy = "name cores of this machine in --bind_core_list"});
  }
  throw ConfigError(
      {.what = "cannot be run",
       .where = program.string(),
       .values = std::strerror(problem.error),
       .remedy = problem.error == ENOEXEC
           ? "it needs a first line such as #!/bin/sh, or name its "
             "interpreter before it"
           : ""});
}

bool is_executable(const std::filesystem::path& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
      ::access(file.c_str(), X_OK) == 0;
}

} // namespace

std::filesystem::path find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    struct stat info {};
    if (::stat(name.c_str(), &info) != 0) {
      throw ConfigError(
          {.what = fmt::format("there is no program {}", escaped(name)),
           .values = std::strerror(errno)});
    }
    if (!is_executable(name)) {
      throw ConfigError(
          {.what = fmt::format("{} is not an executable file", escaped(name)),
           .remedy = "chmod +x it, or name its interpreter before it, as in "
                     "`python3 train.py`"});
    }
    return name;
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "/usr/bin:/bin" : path;
  while (!name.empty()) {
    const auto folder = folders.substr(0, folders.find(':'));
    const auto candidate =
        std::filesystem::path(folder.empty() ? "." : folder) / name;
    if (is_executable(candidate)) {
      return candidate;
    }
    if (folder.size() == folders.size()) {
      break;
    }
    folders.remove_prefix(folder.size() + 1);
  }
  throw ConfigError(
      {.what = fmt::format("there is no program {} on PATH", escaped(name)),
       .remedy = !name.empty() && ::access(name.c_str(), F_OK) == 0
           ? fmt::format("for the file in this folder write ./{}", name)
           : ""});
}

ChildProcess start_process(
    const ProcessSpec& spec,
    const sigset_t& signal_mask) {
  const auto program = find_program(spec.command.at(0));
  const auto arguments = pointers(spec.command);
  const auto environment = pointers(spec.environment);

  const int most = spec.cores.empty()
      ? 0
      : *std::max_element(spec.cores.begin(), spec.cores.end());
  const auto bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most) + 1);
  // Has cpu_set_t's alignment, and as many words as the highest core needs.
  std::vector<unsigned long> words(bytes / sizeof(unsigned long));
  auto* cores = reinterpret_cast<cpu_set_t*>(words.data());
  for (const int core : spec.cores) {
    CPU_SET_S(static_cast<std::size_t>(core), bytes, cores);
  }

  Pipe output = make_pipe();
  Pipe error = make_pipe();
  Pipe report = make_pipe();
  Pipe input;
  if (spec.input == StandardInput::pipe) {
    input = make_pipe();
  } else {
    input.read = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!input.read) {
      system_refuses("open /dev/null");
    }
    input.read = above_standard(std::move(input.read));
  }

  const ChildSetup setup{
      .path = program.c_str(),
      .arguments = arguments.data(),
      .environment = environment.data(),
      .cores = spec.cores.empty() ? nullptr : cores,
      .cores_bytes = bytes,
      .signal_mask = &signal_mask,
      .input = input.read.get(),
      .output = output.write.get(),
      .error = error.write.get(),
      .report = report.write.get(),
      .kept = {spec.terminal, spec.error_memory},
      .lock_limit = spec.lock_limit,
      .parent = ::getpid()};
  const auto started = std::chrono::steady_clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    setup.become_program();
  }
  if (pid < 0) {
    system_refuses("start a process");
  }
  // Parent and child both do this: whichever comes first, the group exists
  // before it is used.
  ::setpgid(pid, pid);

  report.write.reset();
  StartError problem{};
  ssize_t got = 0;
  do {
    got = ::read(report.read.get(), &problem, sizeof problem);
  } while (got < 0 && errno == EINTR);
  if (got == static_cast<ssize_t>(sizeof problem)) {
    ::waitpid(pid, nullptr, 0);
    throw_start_error(problem, program);
  }

  make_non_blocking(output.read.get());
  make_non_blocking(error.read.get());
  return {
      .pid = pid,
      .input = std::move(input.write),
      .output = std::move(output.read),
      .error = std::move(error.read),
      .started = started};
}

} // namespace cairn::launch
