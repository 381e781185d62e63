#pragma once

#include <cairn/base/file.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// Writes a ZIP archive as torch.save does, behind what the file has already:
/// members are uncompressed and start at multiples of 64 bytes of the archive.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file), start_(file.size()) {}

  void add(const std::string& name, std::span<const std::byte> bytes);
  /// Adds a member in portions: exactly `size` bytes must follow.
  void begin(const std::string& name, std::uint64_t size);
  void write(std::span<const std::byte> bytes);
  /// Writes the directory, which ends the archive.
  void finish();

 private:
  struct Member {
    std::string name;
    std::uint64_t size = 0;
    std::uint64_t offset = 0; ///< of its header, from the start
    std::uint32_t crc = 0;
  };
  void end();

  AtomicFile& file_;
  std::uint64_t start_; ///< position of the archive in the file
  std::vector<Member> members_;
  std::uint64_t missing_ = 0; ///< bytes still to come of the current member
};

} // namespace cairn::checkpoints
