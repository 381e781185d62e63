#include "run_ranks.h"

#include "launch/internal/shared_gpu.h"
#include "stack_at_death.h"

#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <utility>

namespace cairn::testing {
namespace {

using distributed::Environment;
using distributed::InitOptions;
using Clock = std::chrono::steady_clock;

int must(int result, const char* call) {
  if (result < 0) {
    throw std::runtime_error(fmt::format("{}: errno {}", call, errno));
  }
  return result;
}

/// Listens on a free port from before the fork on: no other test can take it.
struct Rendezvous {
  Rendezvous() : fd(must(::socket(AF_INET, SOCK_STREAM, 0), "socket")) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    must(::bind(fd, generic, sizeof(address)), "bind");
    must(::listen(fd, 64), "listen");
    socklen_t size = sizeof(address);
    must(::getsockname(fd, generic, &size), "getsockname");
    port = ntohs(address.sin_port);
  }
  ~Rendezvous() { ::close(fd); }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int fd;
  std::uint16_t port = 0;
};

void write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(fd, text.data() + at, text.size() - at);
    if (count <= 0) {
      return; // the parent, which would read it, is gone
    }
    at += static_cast<std::size_t>(count);
  }
}

/// Sends failed expectations through a pipe instead of printing them.
class ReportToParent : public ::testing::EmptyTestEventListener {
 public:
  explicit ReportToParent(int fd) : fd_(fd) {}
  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (result.failed()) {
      write_all(
          fd_,
          fmt::format(
              "{}:{}: {}\n",
              result.file_name() ? result.file_name() : "?",
              result.line_number(),
              result.message()));
    }
  }

 private:
  int fd_;
};

struct Child {
  pid_t pid = 0;
  int pipe = -1;
  int log = -1;
  int status = 0;
  std::string failures;
};

[[noreturn]] void run_child(
    int report,
    int log,
    const std::function<void()>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(log, STDERR_FILENO);
  write_stack_at_death();
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new ReportToParent(report));
  at::set_num_threads(1);
  // c10d's store looks up the name of every peer's address; a name server that
  // does not answer would cost five seconds each time.
  ::setenv("RES_OPTIONS", "timeout:1 attempts:1", 0);
  try {
    body();
  } catch (const std::exception& error) {
    // libtorch appends a stack trace, which starts like this.
    const std::string text = error.what();
    write_all(
        report,
        fmt::format(
            "threw {}\n",
            text.substr(0, text.find("\nException raised"))));
  } catch (...) {
    write_all(report, "threw something that is no std::exception\n");
  }
  // No exit(): the parent's static objects are not this process's to destroy.
  ::_exit(0);
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  ::lseek(fd, 0, SEEK_SET);
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return text;
}

/// Reads every pipe until its rank has ended or the time is over.
void collect(std::vector<Child>& children, Clock::time_point deadline) {
  for (;;) {
    std::vector<pollfd> waiting;
    for (const Child& child : children) {
      if (child.pipe >= 0) {
        waiting.push_back({child.pipe, POLLIN, 0});
      }
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    if (waiting.empty() || left.count() <= 0) {
      return;
    }
    ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()));
    for (const pollfd& ready : waiting) {
      if (ready.revents == 0) {
        continue;
      }
      for (Child& child : children) {
        if (child.pipe == ready.fd) {
          char buffer[4096];
          const ssize_t n = ::read(child.pipe, buffer, sizeof(buffer));
          if (n > 0) {
            child.failures.append(buffer, static_cast<std::size_t>(n));
          } else {
            ::close(child.pipe);
            child.pipe = -1;
          }
        }
      }
    }
  }
}

/// The place of a rank in the job. Where ranks share a GPU, also sets the
/// variables that `cairn launch --share_gpu` sets.
Environment environment_of(
    int rank,
    const RanksOptions& options,
    std::uint16_t port) {
  if (options.share_gpu) {
    auto variables = launch::shared_gpu_variables(rank, options.ranks);
    variables.emplace_back("RANK", fmt::format("{}", rank));
    variables.emplace_back("WORLD_SIZE", fmt::format("{}", options.ranks));
    variables.emplace_back("MASTER_ADDR", "127.0.0.1");
    variables.emplace_back("MASTER_PORT", fmt::format("{}", port));
    for (const auto& [name, value] : variables) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    return distributed::read_environment();
  }
  return {
      .source = Environment::Source::torchrun,
      .rank = rank,
      .world_size = options.ranks,
      .local_rank = rank,
      .local_world_size = options.ranks,
      .master_port = port};
}

} // namespace

std::vector<RankOutcome> run_processes(
    const RanksOptions& options,
    const std::function<void(const InitOptions&)>& body) {
  const Rendezvous rendezvous;
  std::vector<Child> children(static_cast<std::size_t>(options.ranks));
  for (int rank = 0; rank < options.ranks; ++rank) {
    Child& child = children[static_cast<std::size_t>(rank)];
    int ends[2];
    must(::pipe2(ends, O_CLOEXEC), "pipe2");
    child.log = must(::memfd_create("rank-log", MFD_CLOEXEC), "memfd_create");
    child.pid = must(::fork(), "fork");
    if (child.pid == 0) {
      InitOptions init;
      init.environment = environment_of(rank, options, rendezvous.port);
      init.backend = options.backend;
      init.start_timeout = options.start_timeout;
      init.collective_timeout = options.collective_timeout;
      init.notes_grace = options.notes_grace;
      init.shared_memory = options.shared_memory;
      if (rank == 0) {
        init.listen_fd = rendezvous.fd;
      } else {
        ::close(rendezvous.fd);
      }
      run_child(ends[1], child.log, [&] { body(init); });
    }
    ::close(ends[1]);
    child.pipe = ends[0];
  }

  collect(children, Clock::now() + options.limit);
  std::vector<RankOutcome> outcomes;
  for (int rank = 0; rank < options.ranks; ++rank) {
    Child& child = children[static_cast<std::size_t>(rank)];
    if (child.pipe >= 0) {
      ::kill(child.pid, SIGKILL);
      ::close(child.pipe);
      child.failures +=
          fmt::format("did not end within {} s", options.limit.count());
    }
    ::waitpid(child.pid, &child.status, 0);
    if (child.status != 0 && !options.dies.contains(rank)) {
      child.failures += WIFSIGNALED(child.status)
          ? fmt::format("died of signal {}", WTERMSIG(child.status))
          : fmt::format("exited with {}", WEXITSTATUS(child.status));
    }
    const std::string log = read_all(child.log);
    ::close(child.log);
    // The undefined-behaviour sanitizer only reports and goes on.
    if (log.find("runtime error: ") != std::string::npos) {
      child.failures += "undefined behaviour";
    }
    if (!child.failures.empty()) {
      ADD_FAILURE() << "rank " << rank << " of " << options.ranks << ": "
                    << child.failures
                    << (log.empty() ? "" : "\nits stderr:\n" + log);
    }
    outcomes.push_back({child.status, log});
  }
  return outcomes;
}

std::vector<RankOutcome> run_ranks(
    const RanksOptions& options,
    const std::function<void(distributed::World)>& body) {
  return run_processes(options, [&](const InitOptions& init) {
    body(distributed::init_distributed(init));
  });
}

void run_ranks(
    int ranks,
    const std::function<void(const distributed::ProcessGroup&)>& body) {
  run_ranks(RanksOptions{.ranks = ranks}, [&](const distributed::World& world) {
    body(world.group());
  });
}

} // namespace cairn::testing
