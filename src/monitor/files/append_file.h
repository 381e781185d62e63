#pragma once

#include <cairn/base/file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace cairn::monitor {

/// A file that only grows, by whole records. A record that cannot be written as
/// a whole (a full disk) is removed again, so that readers never find half a
/// record in the middle. Folders are made as needed.
class AppendFile {
 public:
  enum class Begin {
    new_file, ///< open() returns false if the file exists
    lines,    ///< continues; cuts off an unfinished last line
  };

  AppendFile() = default;
  /// Opens the file. False when `begin` wants a new file and one exists. Throws
  /// DataError.
  bool open(const std::filesystem::path& path, Begin begin);

  /// Holds `record` until flush().
  void add(std::string_view record);
  /// Writes the held records. Throws DataError; nothing is held afterwards.
  void flush();

  bool empty() const noexcept { return size_ == 0 && held_.empty(); }
  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  UniqueFd file_;
  std::uint64_t size_ = 0; ///< end of the last whole record
  std::string held_;
};

} // namespace cairn::monitor
