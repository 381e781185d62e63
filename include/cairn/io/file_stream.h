#pragma once
#include <cairn/base/unique_fd.h>
#include <cstdint>
#include <filesystem>
#include <span>
namespace cairn::io {
class FileStream {
 public:
  FileStream(std::filesystem::path path, std::uint64_t size);
  ~FileStream();
  void write(std::span<const std::byte> bytes);
  void finish();
 private:
  std::filesystem::path path_;
  UniqueFd file_;
};
} // namespace cairn::io
