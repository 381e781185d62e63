#pragma once

#include "data/read/buffered_file.h"

#include <filesystem>
#include <span>
#include <string_view>

namespace cairn::data {

/// A file on its way to `path`, written as `path`.partial until publish().
/// Without publish() it is removed. A killed program leaves it behind, and the
/// next program that writes the same path starts it anew. A lock keeps two
/// programs from writing the same path at once: the second fails.
class PartialFile {
 public:
  explicit PartialFile(std::filesystem::path path);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  BufferedFile& file() noexcept { return file_; }

  void sync();             ///< puts all of it on disk
  void publish();          ///< renames it to its final name
  void retract() noexcept; ///< deletes it again if published

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  BufferedFile file_;
  bool published_ = false;
};

} // namespace cairn::data
