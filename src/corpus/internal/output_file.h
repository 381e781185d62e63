#pragma once

#include <cairn/base/file.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace cairn::corpus {

/// A file that appears when it is complete. Standard output ("-"), pipes and
/// devices get the bytes as they are written.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  void write(std::string_view text);
  void commit();
  std::uint64_t size() const noexcept { return size_; }

  /// A folder where temporary files of about the same size may be put.
  std::filesystem::path folder() const;

 private:
  std::filesystem::path path_;
  std::optional<AtomicFile> file_;
  UniqueFd opened_;
  int stream_ = 1;
  std::uint64_t size_ = 0;
};

} // namespace cairn::corpus
