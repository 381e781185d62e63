#pragma once

#include "zero/internal/state_types.h"

#include <c10/core/Device.h>
#include <cairn/optim/rule.h>

namespace cairn::zero {

/// Parameters that an optimizer whose states are in the host's memory updates
/// in a second.
struct UpdateSpeeds {
  double on_cpu = 0;    ///< by the CPU's cores
  double on_device = 0; ///< by the device, which the states visit
};

struct UpdateTrial {
  at::Device device{at::kCPU};
  StateTypes types{};
  at::ScalarType gradients = at::kFloat;
  bool pin = true;
};

/// Measures both on memory of their own, some hundred megabytes. Several ranks
/// of a machine should call it at the same time, because they share its cores
/// and its bus in training as well.
UpdateSpeeds measure_update_speeds(
    const optim::Rule& rule,
    const optim::GroupValues& values,
    const UpdateTrial& trial);

} // namespace cairn::zero
