#pragma once

#include <cairn/base/error.h>

namespace cairn::checkpoints {

/// Files are missing, torn or altered: another checkpoint may do.
class DamagedCheckpoint : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

} // namespace cairn::checkpoints
