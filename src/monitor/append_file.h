#pragma once

#include <cairn/base/unique_fd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace cairn::monitor {

/// A file that only grows, by whole records: what cannot be written as a whole
/// (a full disk) is taken back, so that readers never find half a record in
/// the middle. Folders are made as needed.
class AppendFile {
 public:
  enum class Begin {
    new_file, ///< there must be none of that name: false from open()
    lines,    ///< goes on; half a line of a process that was killed is cut off
  };

  AppendFile() = default;
  /// Throws DataError; false where `begin` wants a new file and there is one.
  bool open(const std::filesystem::path& path, Begin begin);

  /// Holds `record` until flush().
  void add(std::string_view record);
  /// Throws DataError, after which nothing is held.
  void flush();

  bool empty() const noexcept { return size_ == 0 && held_.empty(); }
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t size_ = 0; ///< up to the last whole record
  std::string held_;
};

} // namespace cairn::monitor
