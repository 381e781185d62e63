#pragma once

#include <cairn/base/error.h>

namespace cairn::checkpoints {

/// Thrown when files are missing, torn or altered: another checkpoint may still
/// load.
class DamagedCheckpoint : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

} // namespace cairn::checkpoints
