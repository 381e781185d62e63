#pragma once

#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/internal/manifest.h"
#include "checkpoints/internal/retention.h"
#include "distributed/internal/agreement.h"

#include <cairn/base/log.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline engine {

/// Saves of one run, one after the other: every rank writes its file, and rank
/// 0 gets the outcomes, writes the manifest and gives the folder its name.
///
/// No failure of a save harms earlier checkpoints.
class CheckpointWriter {
 public:
  /// `training` are the groups that training calls its collectives on.
  CheckpointWriter(
      distributed::ProcessGroup group,
      std::vector<distributed::ProcessGroup> training,
      Logger logger,
      checkpoints::Retention retention);
  /// Waits for a save under way.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  struct Place {
    std::filesystem::path folder;
    std::string tag;
    std::filesystem::path partial; ///< written here first
  };
  /// Begins a save of all ranks under the same tag, after waiting for the save
  /// before. Throws on every rank if the tags differ, if another job writes to
  /// the folder, or if the folder is missing and cannot be made.
  Place begin(const std::filesystem::path& folder, const std::string& tag);

  /// Writes this rank's file to the path it is given.
  using WriteFile =
      std::function<checkpoints::WrittenFile(const std::filesystem::path&)>;
  struct Save {
    Place place;
    checkpoints::Manifest manifest; ///< rank 0's; without files and tensors
    WriteFile write_file;
    std::chrono::steady_clock::time_point called; ///< when the training called
  };
  /// Writes now; throws CheckpointError on every rank if it fails on one.
  void write(Save save);
  /// Returns at once. Failures are logged, and told by finish().
  void write_behind(Save save);
  /// Waits for the save under way. Returns the error of the last save, if it
  /// failed and nobody was told.
  std::optional<std::string> finish();

  /// Agrees as Agreement does; in order with the training, so not while a save
  /// is under way.
  std::string agree(
      const std::string& what,
      const std::string& text,
      const distributed::Agreement::Decide& decide,
      std::chrono::milliseconds timeout);

 private:
  std::string prepare(
      const std::filesystem::path& folder,
      const std::vector<std::string>& tags);
  enum class Pace { training_waits, behind_training };
  std::string run(Save& save, Pace pace);
  void settle();
  std::string commit(Save& save, const std::vector<std::string>& outcomes);
  void prune(const std::filesystem::path& folder, std::int64_t step);

  distributed::ProcessGroup group_;
  std::vector<distributed::ProcessGroup> training_;
  Logger logger_;
  checkpoints::Retention retention_;
  distributed::Agreement agreement_;
  std::filesystem::path locked_folder_;
  std::optional<checkpoints::WriterLock> lock_; ///< rank 0's
  std::future<std::string> under_way_;
  std::optional<std::string> failure_;
  bool told_of_later_ = false; ///< checkpoints that stay
};

} // namespace cairn::engine
