#pragma once

#include <cairn/base/file.h>
#include <cairn/base/log.h>

#include <filesystem>
#include <string_view>

namespace cairn::data {

/// A lock file by which one process of a machine works while the others wait.
/// The kernel frees the lock when its holder dies, however that happens. The
/// file is removed on release.
class BuildLock {
 public:
  /// Waits for the lock, and logs what it waits for when another process holds
  /// it. On a file system without locks it returns at once, and work may be
  /// done twice.
  BuildLock(
      std::filesystem::path path,
      std::string_view purpose,
      const Logger& logger);
  ~BuildLock();
  BuildLock(const BuildLock&) = delete;
  BuildLock& operator=(const BuildLock&) = delete;

 private:
  std::filesystem::path path_;
  UniqueFd file_;
};

} // namespace cairn::data
