#pragma once

#include "plan/planned_run.h"

namespace cairn::plan {

/// Sets what follows from the seconds of an iteration: tokens and operations a
/// second, and what limits them.
void set_rates(const PlannedRun& run, Estimate& result);

} // namespace cairn::plan
