#include "base/internal/file_calls.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

namespace cairn::inline base {
namespace {

std::atomic<FileCalls*>& in_use() {
  static FileCalls kernel;
  static std::atomic<FileCalls*> calls = &kernel;
  return calls;
}

} // namespace

int FileCalls::openat(int folder, const char* path, int flags, mode_t mode) {
  return ::openat(folder, path, flags, mode);
}

ssize_t FileCalls::write(int fd, const void* bytes, std::size_t size) {
  return ::write(fd, bytes, size);
}

ssize_t FileCalls::pwrite(
    int fd,
    const void* bytes,
    std::size_t size,
    off_t offset) {
  return ::pwrite(fd, bytes, size, offset);
}

int FileCalls::fsync(int fd) {
  return ::fsync(fd);
}

int FileCalls::ftruncate(int fd, off_t size) {
  return ::ftruncate(fd, size);
}

int FileCalls::fallocate(int fd, int mode, off_t offset, off_t size) {
  return ::fallocate(fd, mode, offset, size);
}

int FileCalls::linkat(
    int from_folder,
    const char* from,
    int to_folder,
    const char* to,
    int flags) {
  return ::linkat(from_folder, from, to_folder, to, flags);
}

int FileCalls::renameat2(
    int from_folder,
    const char* from,
    int to_folder,
    const char* to,
    unsigned flags) {
  return ::renameat2(from_folder, from, to_folder, to, flags);
}

int FileCalls::mkdirat(int folder, const char* path, mode_t mode) {
  return ::mkdirat(folder, path, mode);
}

int FileCalls::unlinkat(int folder, const char* path, int flags) {
  return ::unlinkat(folder, path, flags);
}

FileCalls& file_calls() {
  return *in_use().load(std::memory_order_acquire);
}

ReplacedFileCalls::ReplacedFileCalls(FileCalls& calls)
    : before_(in_use().exchange(&calls, std::memory_order_acq_rel)) {}

ReplacedFileCalls::~ReplacedFileCalls() {
  in_use().store(before_, std::memory_order_release);
}

} // namespace cairn::base
