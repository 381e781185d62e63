#pragma once

#include "data/buffered_file.h"

#include <filesystem>
#include <span>
#include <string_view>

namespace cairn::data {

/// A file on its way to `path`, written as `path`.partial until publish().
/// Without publish() it is removed; a program that was killed leaves it behind
/// and the next one to write the same path begins it anew. Two programs that
/// write the same path at once are kept apart by a lock: the second fails.
class PartialFile {
 public:
  explicit PartialFile(std::filesystem::path path);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  BufferedFile& file() noexcept { return file_; }

  void sync();             ///< all of it is on the disk
  void publish();          ///< under its final name
  void retract() noexcept; ///< removes it again, if it was published

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  BufferedFile file_;
  bool published_ = false;
};

} // namespace cairn::data
