#pragma once

#include "pretrain/run/run_parts.h"

#include <cstdint>
#include <optional>

namespace cairn::pretrain {

struct Restored {
  std::optional<std::int64_t> iteration{}; ///< of a checkpoint that was loaded
  std::int64_t consumed_validation = 0;    ///< samples
};

/// What --load names, as its flags say. Throws CheckpointError.
Restored restore_run(RunParts& parts);

} // namespace cairn::pretrain
