#pragma once

#include <cairn/base/file.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

// A run's folder has a folder per save, named by its tag, and the file `latest`
// with the tag of the newest. A save is written under another name and gets its
// own when it is complete. A folder that bears a tag is therefore whole unless
// somebody damaged it.

namespace cairn::checkpoints {

/// Throws ConfigError for a tag that is not a plain folder name.
void check_tag(const std::string& tag);

/// The folder where a save is written until it is complete. `nonce` keeps the
/// remains of one job out of the way of another.
std::filesystem::path partial_folder(
    const std::filesystem::path& folder,
    const std::string& tag,
    const std::string& nonce);

/// Gives a completely written folder its tag as name, durably: also after a
/// power cut. A folder that had the name before is replaced, with no moment at
/// which there is none. Files of the old one that cannot be deleted stay as
/// remains.
void publish(
    const std::filesystem::path& partial,
    const std::filesystem::path& folder,
    const std::string& tag);

void write_latest(const std::filesystem::path& folder, const std::string& tag);

/// The tag in the file `latest`.
struct Latest {
  std::string tag; ///< empty where there is no file, or none that names a tag
  /// Why the file that is there is of no use, with its path; empty if it is.
  std::string problem;
};
Latest read_latest(const std::filesystem::path& folder);

struct FoundCheckpoint {
  std::string tag;
  std::int64_t step = 0;
  std::int64_t saved_at = 0; ///< nanoseconds since 1970
  std::uint64_t bytes = 0;
  std::size_t writers = 0; ///< number of files
  std::string problem;     ///< why it cannot be loaded; empty if complete
};

/// Finds checkpoints by their manifests and the sizes of their files. Those
/// with a problem come first, then the others, oldest first.
std::vector<FoundCheckpoint> find_checkpoints(
    const std::filesystem::path& folder);

/// Tags in the order in which loading without a tag tries them: the one that
/// `latest` names, then the others that have a manifest, newest first. A
/// `latest` that names no tag counts as missing; `warn` is told why.
std::vector<std::string> load_order(
    const std::filesystem::path& folder,
    const std::function<void(const std::string&)>& warn);

/// Deletes a checkpoint. It loses its name first.
void remove_checkpoint(
    const std::filesystem::path& folder,
    const std::string& tag);
/// Deletes the remains of interrupted saves and deletions. Call it only under
/// the lock.
void remove_remains(const std::filesystem::path& folder);

/// Keeps other jobs from writing to a folder for as long as it lives. The
/// kernel releases the lock when the process ends, however that happens.
class WriterLock {
 public:
  /// Throws CheckpointError if another job holds the lock, which is a file in
  /// the folder.
  explicit WriterLock(
      const std::filesystem::path& folder,
      const char* name = ".lock");

 private:
  UniqueFd file_;
};

} // namespace cairn::checkpoints
