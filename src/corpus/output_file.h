#pragma once

#include <cairn/base/atomic_file.h>
#include <cairn/base/unique_fd.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace cairn::corpus {

/// A file that appears when complete. Standard output ("-"), pipes and devices
/// get what is written as it comes.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  void write(std::string_view text);
  void commit();
  std::uint64_t size() const noexcept { return size_; }

  /// Where temporary files of about its size may be put.
  std::filesystem::path folder() const;

 private:
  std::filesystem::path path_;
  std::optional<AtomicFile> file_;
  UniqueFd opened_;
  int stream_ = 1;
  std::uint64_t size_ = 0;
};

} // namespace cairn::corpus
