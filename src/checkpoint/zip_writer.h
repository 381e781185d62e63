#pragma once

#include <cairn/base/atomic_file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// Writes a ZIP archive of members that are stored as they are, each starting
/// on a multiple of 64 bytes, the way torch.save does. Appears under its name
/// at commit(), whole.
class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path) : file_(path) {}

  void add(const std::string& name, std::span<const std::byte> bytes);
  /// The same in portions: exactly `size` bytes must follow.
  void begin(const std::string& name, std::uint64_t size);
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  struct Member {
    std::string name;
    std::uint64_t size = 0;
    std::uint64_t offset = 0; ///< of its header
    std::uint32_t crc = 0;
  };
  void end();

  AtomicFile file_;
  std::vector<Member> members_;
  std::uint64_t missing_ = 0; ///< bytes of the member that is being written
};

} // namespace cairn::checkpoints
