#pragma once

#include <cairn/base/unique_fd.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// A run's folder: a folder per save, named by its tag, and the file `latest`
// with the tag of the newest. A save is written under another name and gets
// its own when it is complete, so what bears a tag is whole unless somebody
// damaged it.

namespace cairn::checkpoints {

/// Throws ConfigError for a tag that is no plain name of a folder.
void check_tag(const std::string& tag);

/// Where a save is written until it is complete; `nonce` keeps the remains of
/// one job out of the way of another.
std::filesystem::path partial_folder(
    const std::filesystem::path& folder,
    const std::string& tag,
    const std::string& nonce);

/// Makes a folder that is completely written visible under its tag, also to
/// whoever comes after a power cut. One that bore the tag before is replaced,
/// at no moment is there none; what of it cannot be deleted is remains.
void publish(
    const std::filesystem::path& partial,
    const std::filesystem::path& folder,
    const std::string& tag);

void write_latest(const std::filesystem::path& folder, const std::string& tag);
/// None where there is no such file.
std::optional<std::string> read_latest(const std::filesystem::path& folder);

struct FoundCheckpoint {
  std::string tag;
  std::int64_t step = 0;
  std::int64_t saved_at = 0; ///< nanoseconds since 1970
  std::uint64_t bytes = 0;
  std::size_t writers = 0; ///< files
  std::string problem;     ///< why it cannot be loaded; empty: it is complete
};

/// By the manifests and the files' sizes, oldest first; those with a problem
/// come first.
std::vector<FoundCheckpoint> find_checkpoints(
    const std::filesystem::path& folder);

/// Tags in the order in which loading without a tag tries them: what `latest`
/// names, then the others that have a manifest, newest first.
std::vector<std::string> load_order(const std::filesystem::path& folder);

/// Deletes a checkpoint: it loses its name first.
void remove_checkpoint(
    const std::filesystem::path& folder,
    const std::string& tag);
/// Deletes what interrupted saves and deletions left; only under the lock.
void remove_remains(const std::filesystem::path& folder);

/// Keeps other jobs from writing to a folder, as long as it lives; the kernel
/// gives it free when the process ends, however that happens.
class FolderLock {
 public:
  /// Throws CheckpointError if another job has it.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  UniqueFd file_;
};

} // namespace cairn::checkpoints
