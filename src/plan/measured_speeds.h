#pragma once

#include "plan/json_section.h"

#include <cairn/plan/cluster.h>

namespace cairn::plan {

/// Reads "gpu.measured" of a cluster's description. Throws ConfigError.
MeasuredSpeeds measured_from(JsonSection section);

} // namespace cairn::plan
