#pragma once

#include "checkpoints/internal/checkpoint_folder.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// The rule that decides which checkpoints stay. Without `keep_last` all stay.
struct Retention {
  std::optional<std::int64_t> keep_last; ///< number of the newest that stay
  /// Checkpoints at steps that are multiples of this stay, too.
  std::optional<std::int64_t> keep_every;
};

/// Tags to delete after a save at `saved_step`, oldest first. Checkpoints of
/// later steps neither count nor are deleted: the training went back to an
/// earlier one, and nobody has said that the later ones are of no use. Neither
/// is the newest complete checkpoint among them, nor one that is not complete:
/// somebody may want to know why it is not.
std::vector<std::string> checkpoints_to_delete(
    const std::vector<FoundCheckpoint>& found,
    const Retention& retention,
    std::int64_t saved_step);

} // namespace cairn::checkpoints
