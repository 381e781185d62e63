#pragma once

#include <sys/types.h>

#include <cstddef>

namespace cairn {

/// The system calls by which Cairn changes files, in one place so that tests
/// can make any of them fail. Each takes, returns and sets errno as the
/// kernel's own does.
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

/// The calls in use: the kernel's, unless a ReplacedFileCalls lives.
FileCalls& file_calls();

/// Puts `calls` in the place of those in use, in all threads, to the end of the
/// scope. Files that are being written then must be done before it ends.
class ReplacedFileCalls {
 public:
  explicit ReplacedFileCalls(FileCalls& calls);
  ~ReplacedFileCalls();
  ReplacedFileCalls(const ReplacedFileCalls&) = delete;
  ReplacedFileCalls& operator=(const ReplacedFileCalls&) = delete;

 private:
  FileCalls* const before_;
};

} // namespace cairn
