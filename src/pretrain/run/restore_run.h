#pragma once

#include "pretrain/run/run_parts.h"

#include <cstdint>
#include <optional>

namespace cairn::pretrain {

struct Restored {
  /// The loaded checkpoint's; none if nothing was loaded.
  std::optional<std::int64_t> iteration{};
  std::int64_t consumed_validation = 0; ///< samples
};

/// Loads the checkpoint of --load, as the flags say. Throws CheckpointError.
Restored restore_run(RunParts& parts);

} // namespace cairn::pretrain
