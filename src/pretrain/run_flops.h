#pragma once

#include "pretrain/run_parts.h"

#include <optional>

namespace cairn::pretrain {

/// What a rank's device can do at most in a second; none where nobody knows.
std::optional<double> peak_flops(const RunParts& parts);

/// Of forward and backward, by Megatron's formula.
double flops_per_sample(const RunParts& parts);

} // namespace cairn::pretrain
