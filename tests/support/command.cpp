#include "support/command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

namespace cairn::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<char*> pointers(const Words& words) {
  std::vector<char*> result;
  for (const std::string& word : words) {
    result.push_back(const_cast<char*>(word.c_str()));
  }
  result.push_back(nullptr);
  return result;
}

std::string unique_mark() {
  std::random_device random;
  return fmt::format("{}-{:08x}{:08x}", ::getpid(), random(), random());
}

/// Resets signals that nohup, or a shell that runs all tests in the background,
/// ignores.
void answer_signals() {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) {
    ::signal(signal, SIG_DFL);
  }
}

} // namespace

Command::Command(
    const Words& words,
    const std::vector<std::pair<std::string, std::string>>& changes,
    Streams streams)
    : mark_(unique_mark()), started_(Clock::now()) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    variables[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  // Variables that a launcher reads must come from the test alone.
  for (const char* name : {"OMP_NUM_THREADS", "CAIRN_RESTART_COUNT"}) {
    variables.erase(name);
  }
  variables["CUDA_VISIBLE_DEVICES"] = ""; // as on a machine without a GPU
  // The leak check at the end of a sanitized program takes seconds; the library
  // is checked within this one.
  variables.emplace("ASAN_OPTIONS", "detect_leaks=0");
  for (const auto& [name, value] : changes) {
    variables[name] = value;
  }
  variables[mark_variable] = mark_;
  Words entries;
  for (const auto& [name, value] : variables) {
    entries.push_back(name + "=" + value);
  }
  const auto arguments = pointers(words);
  const auto environment = pointers(entries);
  if (streams == Streams::terminal) {
    start_on_terminal(arguments, environment);
    return;
  }
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0 ||
      ::pipe2(err.data(), O_CLOEXEC) != 0) {
    std::abort();
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    answer_signals();
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    ::execvpe(arguments[0], arguments.data(), environment.data());
    ::_exit(126);
  }
  ::close(out[1]);
  ::close(err[1]);
  out_ = UniqueFd(out[0]);
  err_ = UniqueFd(err[0]);
}

void Command::start_on_terminal(
    const std::vector<char*>& arguments,
    const std::vector<char*>& environment) {
  const winsize size{
      .ws_row = 40,
      .ws_col = 100,
      .ws_xpixel = 0,
      .ws_ypixel = 0};
  int terminal = -1;
  pid_ = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (pid_ == 0) {
    answer_signals();
    ::execvpe(arguments[0], arguments.data(), environment.data());
    ::_exit(126);
  }
  if (pid_ < 0) {
    std::abort();
  }
  ::fcntl(terminal, F_SETFD, FD_CLOEXEC);
  out_ = UniqueFd(terminal);
}

void Command::type(std::string_view keys) {
  ASSERT_EQ(
      ::write(out_.get(), keys.data(), keys.size()),
      static_cast<ssize_t>(keys.size()));
}

Command::~Command() {
  for (const pid_t pid : living()) {
    ::kill(pid, SIGKILL);
  }
  if (result_.code < 0) {
    ::waitpid(pid_, nullptr, 0);
  }
}

bool Command::read_some() {
  std::array<pollfd, 2> watched = {
      {{out_.get(), POLLIN, 0}, {err_.get(), POLLIN, 0}}};
  if (::poll(watched.data(), watched.size(), 60000) <= 0) {
    ADD_FAILURE() << "no output for 60 s; so far:\n"
                  << result_.out << result_.err;
    for (const pid_t pid : living()) {
      ::kill(pid, SIGKILL); // else finish() would wait for them
    }
    return false;
  }
  std::array<char, 65536> buffer{};
  const auto read = [&](UniqueFd& fd, const pollfd& ready, std::string& text) {
    if (ready.revents != 0) {
      const auto got = ::read(fd.get(), buffer.data(), buffer.size());
      if (got > 0) {
        text.append(buffer.data(), static_cast<std::size_t>(got));
      } else {
        fd.reset();
      }
    }
  };
  read(out_, watched[0], result_.out);
  read(err_, watched[1], result_.err);
  return true;
}

void Command::wait_for(std::string_view text) {
  wait_until(result_.out, text);
}

void Command::wait_for_error(std::string_view text) {
  wait_until(result_.err, text);
}

void Command::wait_until(const std::string& stream, std::string_view text) {
  while (stream.find(text) == std::string::npos) {
    if ((!out_ && !err_) || !read_some()) {
      FAIL() << "ended without writing \"" << text << "\":\n"
             << result_.out << result_.err;
    }
  }
}

Result Command::finish() {
  while ((out_ || err_) && read_some()) {
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  result_.code =
      WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result_.took = std::chrono::duration_cast<std::chrono::milliseconds>(
      Clock::now() - started_);
  return result_;
}

void Command::send(int signal) {
  ASSERT_EQ(::kill(pid_, signal), 0);
}

std::vector<pid_t> Command::living() const {
  const auto entry = fmt::format("{}={}", mark_variable, mark_);
  std::vector<pid_t> pids;
  for (const auto& folder : std::filesystem::directory_iterator("/proc")) {
    const int pid = std::atoi(folder.path().filename().c_str());
    // A zombie's environment reads as empty.
    if (pid > 0 &&
        read_text(folder.path() / "environ").find(entry) != std::string::npos) {
      pids.push_back(pid);
    }
  }
  return pids;
}

void Command::expect_nothing_left() const {
  const auto end = Clock::now() + std::chrono::seconds(10);
  while (!living().empty()) {
    if (Clock::now() > end) {
      for (const pid_t pid : living()) {
        ADD_FAILURE() << "left behind: "
                      << read_text(fmt::format("/proc/{}/cmdline", pid));
      }
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

Result run(const Words& words) {
  return Command(words).finish();
}

std::string read_text(const std::filesystem::path& file) {
  // Uses no stream: those throw when a process ends whose /proc they read.
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> buffer{};
  ssize_t got = 0;
  while (fd && (got = ::read(fd.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

} // namespace cairn::testing
