#pragma once

#include "corpus/internal/unpack_archive.h"

#include <cairn/base/file.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::corpus {

/// Writes the members of an archive, one after another. This is the one place
/// that checks their names and counts their bytes.
class ArchiveOutput {
 public:
  ArchiveOutput(
      std::filesystem::path archive,
      std::filesystem::path folder,
      UnpackLimits limits);

  void make_folder(const std::string& name);
  void begin(const std::string& name);
  void write(std::span<const char> bytes);
  void finish();

  const std::vector<std::filesystem::path>& files() const { return files_; }

  /// Throws a DataError about the archive.
  [[noreturn]] void refuse(std::string what, std::string values = {}) const;

 private:
  std::filesystem::path inside(const std::string& name) const;

  std::filesystem::path archive_;
  std::filesystem::path folder_;
  UnpackLimits limits_;
  std::uint64_t bytes_ = 0;
  std::optional<AtomicFile> file_;
  std::vector<std::filesystem::path> files_;
};

} // namespace cairn::corpus
