#pragma once

#include <cairn/base/file.h>

#include <cstddef>
#include <string>

namespace cairn::distributed {

/// Memory that processes of one machine share. It has no name in any file
/// system: it disappears with the last process that holds it, however that
/// process ends, and the size of /dev/shm does not matter.
class SharedMemorySegment {
 public:
  /// Throws CommError when the system does not give the memory.
  static SharedMemorySegment create(std::size_t bytes);
  /// Opens the segment that another process created and whose ticket() it told.
  /// Throws CommError saying why the memory is out of reach: another machine,
  /// container or user.
  static SharedMemorySegment open(const std::string& ticket);

  SharedMemorySegment(SharedMemorySegment&& other) noexcept;
  SharedMemorySegment& operator=(SharedMemorySegment&&) = delete;
  ~SharedMemorySegment();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// Text with which another process opens the segment.
  std::string ticket() const;

  /// Declares this process to be that member for as long as it holds the
  /// segment. The kernel keeps this as a file lock, so a killed process is
  /// noticed too.
  void join(int member);
  /// True while the process of that member holds the segment.
  bool holds(int member) const;

 private:
  SharedMemorySegment(UniqueFd fd, std::string name, std::size_t size);

  UniqueFd fd_;
  std::string name_;
  std::size_t size_ = 0;
  std::byte* data_ = nullptr;
};

} // namespace cairn::distributed
