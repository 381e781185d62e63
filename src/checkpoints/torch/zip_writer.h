#pragma once

#include <cairn/base/file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// Writes a ZIP archive as torch.save does: members are uncompressed and start
/// at multiples of 64 bytes. The file gets its name at commit(), when it is
/// complete.
class ZipWriter {
 public:
  explicit ZipWriter(const std::filesystem::path& path) : file_(path) {}

  void add(const std::string& name, std::span<const std::byte> bytes);
  /// Adds a member in portions: exactly `size` bytes must follow.
  void begin(const std::string& name, std::uint64_t size);
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  struct Member {
    std::string name;
    std::uint64_t size = 0;
    std::uint64_t offset = 0; ///< position of its header
    std::uint32_t crc = 0;
  };
  void end();

  AtomicFile file_;
  std::vector<Member> members_;
  std::uint64_t missing_ = 0; ///< bytes still to come of the current member
};

} // namespace cairn::checkpoints
