#pragma once

#include <cairn/base/log.h>
#include <cairn/base/unique_fd.h>

#include <filesystem>
#include <string_view>

namespace cairn::data {

/// A lock file, so that of the processes of a machine one works and the others
/// wait. The kernel frees it when its holder dies, however that happens, and it
/// is removed when it is given back.
class FolderLock {
 public:
  /// Waits. Says what is waited for when another has it. On a file system
  /// without locks it returns at once: then work may be done twice.
  FolderLock(
      std::filesystem::path path,
      std::string_view purpose,
      const Logger& logger);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path path_;
  UniqueFd file_;
};

} // namespace cairn::data
