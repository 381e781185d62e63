#pragma once

#include "engine/step/rate_schedule.h"

#include <cairn/optim/loss_scaler.h>

#include <cstdint>

namespace cairn::inline engine {

/// How far a training has come. A checkpoint keeps all of it but the micro
/// batches of an update that is not complete.
struct Progress {
  optim::LossScaler scaler;
  RateSchedule schedule;
  std::int64_t micro_steps = 0;
  std::int64_t since_update = 0; ///< micro steps after the last update
  std::int64_t global_steps = 0; ///< updates, skipped ones included
  std::int64_t samples = 0;      ///< of those updates, over all ranks
  std::int64_t skipped_steps = 0;
  bool backward_done = false; ///< step() comes next
};

} // namespace cairn::engine
