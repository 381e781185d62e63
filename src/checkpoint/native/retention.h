#pragma once

#include "checkpoint/native/checkpoint_folder.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// Which checkpoints stay. Without `keep_last` all do.
struct Retention {
  std::optional<std::int64_t> keep_last;  ///< so many of the newest
  std::optional<std::int64_t> keep_every; ///< and those at multiples of it
};

/// Tags, oldest first. Never the newest that is complete, and none that is not
/// complete: somebody may want to know why.
std::vector<std::string> checkpoints_to_delete(
    const std::vector<FoundCheckpoint>& found,
    const Retention& retention);

} // namespace cairn::checkpoints
