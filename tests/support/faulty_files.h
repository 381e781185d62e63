#pragma once

#include "base/internal/file_calls.h"

#include <cerrno>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cairn::testing {

/// A fault, and the number of the call (that changes files) in which it occurs.
struct Fault {
  enum class Kind {
    fails,       ///< with `error`
    short_write, ///< half of the bytes; the write after it fails
    stays_full,  ///< this one and every later one that needs room fails
    kills ///< kill -9 before the call, for a write after half of the bytes
  };
  std::size_t at = 0; ///< from 1; 0 is never
  Kind kind = Kind::fails;
  int error = EIO;
};

/// `call 3 fails: Input/output error`
std::string to_string(const Fault& fault);

/// Makes files below `folder` behave like those of a bad disk while it lives,
/// and counts the calls on them. Other files are left alone. Scopes may be
/// nested: calls that an inner one lets pass go to the outer one.
class FaultyFiles final : FileCalls {
 public:
  explicit FaultyFiles(const std::filesystem::path& folder, Fault fault = {});

  /// The calls so far, such as "pwrite step-3/model.safetensors".
  std::vector<std::string> calls() const;
  bool fault_met() const;

 private:
  int openat(int folder, const char* path, int flags, mode_t mode) override;
  ssize_t write(int fd, const void* bytes, std::size_t size) override;
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset)
      override;
  int fsync(int fd) override;
  int ftruncate(int fd, off_t size) override;
  int fallocate(int fd, int mode, off_t offset, off_t size) override;
  int linkat(
      int from_folder,
      const char* from,
      int to_folder,
      const char* to,
      int flags) override;
  int renameat2(
      int from_folder,
      const char* from,
      int to_folder,
      const char* to,
      unsigned flags) override;
  int mkdirat(int folder, const char* path, mode_t mode) override;
  int unlinkat(int folder, const char* path, int flags) override;

  enum class Needs { room, nothing };
  struct Verdict {
    int error = 0;
    bool half = false;
    bool kill = false;
  };
  /// Counts the call, if it is on a file below the folder.
  Verdict judge(
      const char* call,
      const std::optional<std::filesystem::path>& path,
      Needs needs);
  /// True if a call that writes nothing fails, with errno set.
  bool fails(
      const char* call,
      const std::optional<std::filesystem::path>& path,
      Needs needs);
  ssize_t write_or_fail(
      const char* call,
      int fd,
      std::size_t size,
      const std::function<ssize_t(std::size_t)>& write);

  const std::filesystem::path folder_;
  const Fault fault_;
  FileCalls& outer_;
  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
  bool met_ = false;
  bool half_written_ = false;     ///< makes the next write fail
  const ReplacedFileCalls scope_; ///< last, so that it ends first
};

/// The end of an operation that met a fault.
struct FaultOutcome {
  Fault fault;
  std::string call;                 ///< the call that met it
  std::optional<std::string> error; ///< the DataError's message, if it threw
  bool killed = false;
};

/// Runs `operation` undisturbed to count its calls on files below `folder`,
/// then once for every kind of fault at every call, each after `prepare` and
/// followed by `check`. Kills happen in a forked process.
void with_every_fault(
    const std::filesystem::path& folder,
    const std::function<void()>& prepare,
    const std::function<void()>& operation,
    const std::function<void(const FaultOutcome&)>& check);

} // namespace cairn::testing
