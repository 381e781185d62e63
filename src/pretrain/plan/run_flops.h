#pragma once

#include "pretrain/run/run_parts.h"

#include <cstdint>
#include <optional>

namespace cairn::pretrain {

/// What a rank's device can do at most in a second; none where nobody knows.
std::optional<double> peak_flops(const RunParts& parts);

/// Operations of forward and backward of so many tokens, by Megatron's formula.
double flops_per_sample(const RunParts& parts, std::int64_t sequence);

} // namespace cairn::pretrain
