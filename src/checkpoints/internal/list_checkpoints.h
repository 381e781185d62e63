#pragma once

#include <cairn/checkpoints/checkpoint_format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints {

struct ListedCheckpoint {
  std::string tag; ///< the name of its folder
  CheckpointFormat format = CheckpointFormat::native;
  std::optional<std::int64_t> step;
  std::int64_t saved_at = 0; ///< nanoseconds since 1970
  std::uint64_t bytes = 0;
  std::size_t files = 0; ///< files with tensors: one for each writer
  std::string problem;   ///< why it cannot be loaded; empty if complete
};

struct CheckpointList {
  std::vector<ListedCheckpoint> checkpoints; ///< oldest first
  std::string latest;         ///< content of the file `latest`; empty without
  std::string latest_problem; ///< why the file `latest` is of no use, if so
  std::string loaded;         ///< the tag that loading takes if none is given
  /// Folders that interrupted saves have left, or that a save is writing now.
  std::vector<std::string> remains;
};

/// The checkpoints of a run's folder, of any format, or the one checkpoint that
/// the folder itself is. They are judged by names and headers; no tensor is
/// read. Throws CheckpointError if there is no such folder.
CheckpointList list_checkpoints(const std::filesystem::path& folder);

} // namespace cairn::checkpoints
