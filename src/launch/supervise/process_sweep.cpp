#include "launch/supervise/process_sweep.h"

#include "base/internal/stable_hash.h"

#include <cairn/base/file.h>

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <system_error>
#include <thread>

namespace cairn::launch {
namespace {

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end;
       !error && entry != end;
       entry.increment(error)) {
    const auto name = entry->path().filename().string();
    pid_t pid = 0;
    const auto [last, bad] =
        std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad == std::errc{} && last == name.data() + name.size()) {
      pids.push_back(pid);
    }
  }
  return pids;
}

/// The content of a file under /proc; empty when the process is gone. That may
/// happen while reading, when a C++ stream would throw.
std::string read_proc(pid_t pid, const char* file) {
  const UniqueFd fd(::open(
      fmt::format("/proc/{}/{}", pid, file).c_str(),
      O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> buffer;
  ssize_t got = 0;
  while (fd && (got = ::read(fd.get(), buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

/// The parent of a process; empty when the process is gone or a zombie.
std::optional<pid_t> parent_of(pid_t pid) {
  // `pid (name) state ppid …`, where the name may hold blanks and brackets.
  const auto stat = read_proc(pid, "stat");
  const auto bracket = stat.rfind(')');
  if (bracket == std::string::npos || bracket + 4 >= stat.size() ||
      stat[bracket + 2] == 'Z' || stat[bracket + 2] == 'X') {
    return std::nullopt;
  }
  pid_t parent = 0;
  const char* first = stat.data() + bracket + 4;
  if (std::from_chars(first, stat.data() + stat.size(), parent).ec !=
      std::errc{}) {
    return std::nullopt;
  }
  return parent;
}

/// True when `entry` is one of the variables in /proc/PID/environ.
bool has_entry(std::string_view environment, std::string_view entry) {
  for (auto at = environment.find(entry); at != std::string_view::npos;
       at = environment.find(entry, at + 1)) {
    const auto end = at + entry.size();
    if ((at == 0 || environment[at - 1] == '\0') &&
        (end == environment.size() || environment[end] == '\0')) {
      return true;
    }
  }
  return false;
}

/// The soft limit on file locks of a process; empty when it has none, or when
/// the process is gone.
std::optional<std::uint64_t> lock_limit(pid_t pid) {
  const auto limits = read_proc(pid, "limits");
  constexpr std::string_view name = "Max file locks";
  const auto line = limits.find(name);
  if (line == std::string::npos) {
    return std::nullopt;
  }
  const auto number = limits.find_first_not_of(' ', line + name.size());
  std::uint64_t value = 0;
  const char* const end = limits.data() + limits.size();
  return number != std::string::npos &&
          std::from_chars(limits.data() + number, end, value).ec == std::errc{}
      ? std::optional(value)
      : std::nullopt;
}

/// True for processes that this user may kill. Those of a launcher that root
/// has started may have become another user's.
bool may_be_ours(pid_t pid) {
  const uid_t user = ::geteuid();
  struct stat info {};
  return user == 0 ||
      (::stat(fmt::format("/proc/{}", pid).c_str(), &info) == 0 &&
       info.st_uid == user);
}

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

} // namespace

std::string make_launch_id() {
  std::random_device random;
  return fmt::format("{}-{:08x}{:08x}", ::getpid(), random(), random());
}

std::uint64_t lock_limit_of(std::string_view launch_id) {
  // The number is larger than any limit that people set, and not RLIM_INFINITY.
  constexpr std::uint64_t large = std::uint64_t{1} << 62;
  return large | (stable_hash(launch_id) >> 2);
}

std::vector<pid_t> processes_of_launch(std::string_view id) {
  const auto entry = fmt::format("{}={}", launch_id_variable, id);
  const std::uint64_t limit = lock_limit_of(id);
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    if (has_entry(read_proc(pid, "environ"), entry) ||
        (may_be_ours(pid) && lock_limit(pid) == limit)) {
      found.push_back(pid);
    }
  }
  return found;
}

std::vector<pid_t> descendants(pid_t root, const std::vector<pid_t>& spared) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : all_processes()) {
    if (const auto parent = parent_of(pid)) {
      children.emplace(*parent, pid);
    }
  }
  std::vector<pid_t> found = {root};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto [first, last] = children.equal_range(found[i]);
    for (auto child = first; child != last; ++child) {
      if (!contains(spared, child->second)) {
        found.push_back(child->second);
      }
    }
  }
  found.erase(found.begin());
  return found;
}

std::vector<pid_t> sweep_processes(
    std::string_view id,
    const std::vector<pid_t>& spared,
    std::chrono::steady_clock::time_point deadline) {
  std::vector<pid_t> killed;
  while (true) {
    auto victims = descendants(::getpid(), spared);
    for (const pid_t pid : processes_of_launch(id)) {
      if (pid != ::getpid() && !contains(victims, pid) &&
          parent_of(pid).has_value()) {
        victims.push_back(pid);
      }
    }
    if (victims.empty() || std::chrono::steady_clock::now() > deadline) {
      for (const pid_t pid : killed) { // reap the zombies among them
        ::waitpid(pid, nullptr, WNOHANG);
      }
      return victims;
    }
    for (const pid_t pid : victims) {
      ::kill(pid, SIGKILL);
      killed.push_back(pid);
    }
    // Nothing reports the end of a process that is not our child; a killed one
    // ends in well under a millisecond.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

} // namespace cairn::launch
