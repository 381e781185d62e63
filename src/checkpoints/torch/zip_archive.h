#pragma once

#include <cairn/base/mapped_file.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace cairn::checkpoints {

/// A ZIP file whose members are stored uncompressed, as torch.save writes them:
/// each member is a part of the mapped file. Compressed or encrypted members,
/// names that lead out of the archive, and members that overlap or reach beyond
/// the file are refused with a CheckpointError.
class ZipArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& path);
  /// An archive that is a part of a larger file; `path` is for errors.
  ZipArchive(
      std::shared_ptr<const MappedFile> file,
      std::span<const std::byte> archive,
      const std::filesystem::path& path);

  const std::map<std::string, std::span<const std::byte>>& members() const {
    return members_;
  }
  /// The mapping, which keeps the members' bytes.
  std::shared_ptr<const MappedFile> file() const { return file_; }

 private:
  void read(
      std::span<const std::byte> archive,
      const std::filesystem::path& path);

  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, std::span<const std::byte>> members_;
};

} // namespace cairn::checkpoints
