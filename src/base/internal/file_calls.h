#pragma once

#include <sys/types.h>

#include <cstddef>

namespace cairn::inline base {

/// The system calls by which Cairn changes files, in one place so that tests
/// can make any of them fail. Arguments, results and errno are those of the
/// kernel's calls.
class FileCalls {
 public:
  FileCalls() = default;
  virtual ~FileCalls() = default;
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  virtual int openat(int folder, const char* path, int flags, mode_t mode);
  virtual ssize_t write(int fd, const void* bytes, std::size_t size);
  virtual ssize_t pwrite(
      int fd,
      const void* bytes,
      std::size_t size,
      off_t offset);
  virtual int fsync(int fd);
  virtual int ftruncate(int fd, off_t size);
  virtual int fallocate(int fd, int mode, off_t offset, off_t size);
  virtual int linkat(
      int from_folder,
      const char* from,
      int to_folder,
      const char* to,
      int flags);
  virtual int renameat2(
      int from_folder,
      const char* from,
      int to_folder,
      const char* to,
      unsigned flags);
  virtual int mkdirat(int folder, const char* path, mode_t mode);
  virtual int unlinkat(int folder, const char* path, int flags);
};

/// The calls in use: the kernel's, unless a ReplacedFileCalls exists.
FileCalls& file_calls();

/// Replaces the calls in use by `calls`, in all threads, until the end of the
/// scope. Files being written must be finished before the scope ends.
class ReplacedFileCalls {
 public:
  explicit ReplacedFileCalls(FileCalls& calls);
  ~ReplacedFileCalls();
  ReplacedFileCalls(const ReplacedFileCalls&) = delete;
  ReplacedFileCalls& operator=(const ReplacedFileCalls&) = delete;

 private:
  FileCalls* const before_;
};

} // namespace cairn::base
