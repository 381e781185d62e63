#include "support/faulty_files.h"

#include "support/child_process.h"

#include <cairn/base/error.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace cairn::testing {
namespace {

namespace fs = std::filesystem;

/// The path of an open file. A file without a name has one in its folder, too.
std::optional<fs::path> path_of(int fd) {
  std::error_code none;
  fs::path path = fs::read_symlink(fmt::format("/proc/self/fd/{}", fd), none);
  return none ? std::nullopt : std::optional(path);
}

std::optional<fs::path> path_of(int folder, const char* name) {
  const fs::path path = name;
  if (path.is_absolute()) {
    std::error_code none;
    // A path in /proc/self/fd opens the same file once more.
    return path.parent_path() == "/proc/self/fd" ? fs::read_symlink(path, none)
                                                 : path;
  }
  if (folder == AT_FDCWD) {
    return fs::absolute(path);
  }
  const auto above = path_of(folder);
  return above ? std::optional(*above / path) : std::nullopt;
}

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::ranges::mismatch(folder, path).in1 == folder.end();
}

bool opens_for_change(int flags) {
  return (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
}

} // namespace

std::string to_string(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::kills:
      return fmt::format("call {} kills", fault.at);
    case Fault::Kind::short_write:
      return fmt::format(
          "call {} is short, then: {}",
          fault.at,
          std::generic_category().message(fault.error));
    case Fault::Kind::stays_full:
    case Fault::Kind::fails:
      break;
  }
  return fmt::format(
      "call {}{} fails: {}",
      fault.at,
      fault.kind == Fault::Kind::stays_full ? " and what follows" : "",
      std::generic_category().message(fault.error));
}

FaultyFiles::FaultyFiles(const fs::path& folder, Fault fault)
    : folder_(fs::canonical(folder)),
      fault_(fault),
      outer_(file_calls()),
      scope_(*this) {}

std::vector<std::string> FaultyFiles::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

bool FaultyFiles::fault_met() const {
  const std::lock_guard lock(mutex_);
  return met_;
}

FaultyFiles::Verdict FaultyFiles::judge(
    const char* call,
    const std::optional<fs::path>& path,
    Needs needs) {
  if (!path || !is_below(*path, folder_)) {
    return {};
  }
  const std::lock_guard lock(mutex_);
  calls_.push_back(
      fmt::format("{} {}", call, path->lexically_relative(folder_).string()));
  if (needs == Needs::room && std::exchange(half_written_, false)) {
    return {.error = fault_.error};
  }
  if (met_ && fault_.kind == Fault::Kind::stays_full && needs == Needs::room) {
    return {.error = fault_.error};
  }
  if (calls_.size() != fault_.at) {
    return {};
  }
  met_ = true;
  switch (fault_.kind) {
    case Fault::Kind::short_write:
      half_written_ = true;
      return {.error = fault_.error, .half = true};
    case Fault::Kind::kills:
      return {.half = true, .kill = true};
    case Fault::Kind::stays_full:
    case Fault::Kind::fails:
      break;
  }
  return {.error = fault_.error};
}

bool FaultyFiles::fails(
    const char* call,
    const std::optional<fs::path>& path,
    Needs needs) {
  const Verdict verdict = judge(call, path, needs);
  if (verdict.kill) {
    ::raise(SIGKILL);
  }
  errno = verdict.error != 0 ? verdict.error : errno;
  return verdict.error != 0;
}

ssize_t FaultyFiles::write_or_fail(
    const char* call,
    int fd,
    std::size_t size,
    const std::function<ssize_t(std::size_t)>& write) {
  const Verdict verdict = judge(call, path_of(fd), Needs::room);
  if (verdict.half && size > 1) {
    const ssize_t written = write(size / 2);
    if (verdict.kill) {
      ::raise(SIGKILL);
    }
    return written;
  }
  if (verdict.kill) {
    ::raise(SIGKILL);
  }
  if (verdict.error != 0) {
    errno = verdict.error;
    return -1;
  }
  return write(size);
}

int FaultyFiles::openat(int folder, const char* path, int flags, mode_t mode) {
  const bool changes = opens_for_change(flags);
  return changes && fails("open", path_of(folder, path), Needs::room)
      ? -1
      : outer_.openat(folder, path, flags, mode);
}

ssize_t FaultyFiles::write(int fd, const void* bytes, std::size_t size) {
  return write_or_fail("write", fd, size, [&](std::size_t part) {
    return outer_.write(fd, bytes, part);
  });
}

ssize_t FaultyFiles::pwrite(
    int fd,
    const void* bytes,
    std::size_t size,
    off_t offset) {
  return write_or_fail("pwrite", fd, size, [&](std::size_t part) {
    return outer_.pwrite(fd, bytes, part, offset);
  });
}

int FaultyFiles::fsync(int fd) {
  return fails("fsync", path_of(fd), Needs::nothing) ? -1 : outer_.fsync(fd);
}

int FaultyFiles::ftruncate(int fd, off_t size) {
  return fails("ftruncate", path_of(fd), Needs::nothing)
      ? -1
      : outer_.ftruncate(fd, size);
}

int FaultyFiles::fallocate(int fd, int mode, off_t offset, off_t size) {
  return fails("fallocate", path_of(fd), Needs::room)
      ? -1
      : outer_.fallocate(fd, mode, offset, size);
}

int FaultyFiles::linkat(
    int from_folder,
    const char* from,
    int to_folder,
    const char* to,
    int flags) {
  return fails("link", path_of(to_folder, to), Needs::room)
      ? -1
      : outer_.linkat(from_folder, from, to_folder, to, flags);
}

int FaultyFiles::renameat2(
    int from_folder,
    const char* from,
    int to_folder,
    const char* to,
    unsigned flags) {
  return fails("rename", path_of(to_folder, to), Needs::nothing)
      ? -1
      : outer_.renameat2(from_folder, from, to_folder, to, flags);
}

int FaultyFiles::mkdirat(int folder, const char* path, mode_t mode) {
  return fails("mkdir", path_of(folder, path), Needs::room)
      ? -1
      : outer_.mkdirat(folder, path, mode);
}

int FaultyFiles::unlinkat(int folder, const char* path, int flags) {
  return fails("unlink", path_of(folder, path), Needs::nothing)
      ? -1
      : outer_.unlinkat(folder, path, flags);
}

void with_every_fault(
    const fs::path& folder,
    const std::function<void()>& prepare,
    const std::function<void()>& operation,
    const std::function<void(const FaultOutcome&)>& check) {
  prepare();
  std::vector<std::string> calls;
  {
    const FaultyFiles counting(folder);
    operation();
    calls = counting.calls();
  }
  ASSERT_FALSE(calls.empty()) << "nothing goes through FileCalls";
  using Kind = Fault::Kind;
  for (std::size_t at = 1; at <= calls.size(); ++at) {
    for (const auto& [kind, error] :
         {std::pair(Kind::fails, EIO),
          std::pair(Kind::short_write, EIO),
          std::pair(Kind::short_write, ENOSPC),
          std::pair(Kind::stays_full, ENOSPC),
          std::pair(Kind::kills, 0)}) {
      FaultOutcome outcome{
          .fault = {.at = at, .kind = kind, .error = error},
          .call = calls[at - 1]};
      SCOPED_TRACE(
          fmt::format("{}: {}", outcome.call, to_string(outcome.fault)));
      prepare();
      if (kind == Kind::kills) {
        const int status = run_in_child([&] {
          const FaultyFiles faulty(folder, outcome.fault);
          operation();
          return 0;
        });
        outcome.killed = status == 128 + SIGKILL;
        EXPECT_TRUE(outcome.killed) << "ended with " << status;
      } else {
        const FaultyFiles faulty(folder, outcome.fault);
        try {
          operation();
        } catch (const DataError& thrown) {
          outcome.error = thrown.what();
        }
        EXPECT_TRUE(faulty.fault_met());
      }
      check(outcome);
    }
  }
}

} // namespace cairn::testing
