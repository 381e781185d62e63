#include "base/internal/sync_file.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"

#include <fcntl.h>
#include <fmt/core.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <future>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace cairn::inline base {

namespace {

/// The error number of fsync(2); 0 if it succeeds.
int sync(int fd) {
  while (file_calls().fsync(fd) != 0) {
    if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

/// Calls fsync(2) in a thread of its own, which stays behind if the disk hangs:
/// no signal ends the call.
int sync_within(
    std::chrono::seconds limit,
    int fd,
    const std::filesystem::path& path) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) {
    throw file_error("write to disk", path, errno);
  }
  std::packaged_task<int()> task(
      [copy = std::move(copy)] { return sync(copy.get()); });
  std::future<int> done = task.get_future();
  std::thread(std::move(task)).detach();
  if (done.wait_for(limit) == std::future_status::timeout) {
    throw DataError(
        {.what = "the disk has not taken it in time",
         .where = path.string(),
         .values = fmt::format(
             "{} s, the limit of {}",
             limit.count(),
             disk_timeout_variable),
         .remedy = "look at the disk or the file server"});
  }
  return done.get();
}

} // namespace

std::optional<std::chrono::seconds> disk_timeout() {
  const char* const text = std::getenv(disk_timeout_variable);
  if (text == nullptr || *text == '\0') {
    return std::nullopt;
  }
  const std::string_view digits(text);
  const char* const last = digits.data() + digits.size();
  int seconds = 0;
  const auto [end, error] = std::from_chars(digits.data(), last, seconds);
  if (error != std::errc() || end != last || seconds < 1) {
    throw ConfigError(
        {.what = "not a number of seconds",
         .where = disk_timeout_variable,
         .values = text,
         .remedy = "give a whole number from 1 on, or unset it"});
  }
  return std::chrono::seconds(seconds);
}

void sync_file(int fd, const std::filesystem::path& path) {
  const auto limit = disk_timeout();
  if (const int error = limit ? sync_within(*limit, fd, path) : sync(fd)) {
    throw file_error("write to disk", path, error);
  }
}

void sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : ".";
  sync_file(open_file(folder, O_RDONLY | O_DIRECTORY).get(), folder);
}

} // namespace cairn::base
