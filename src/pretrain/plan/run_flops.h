#pragma once

#include "pretrain/run/run_parts.h"

#include <cstdint>
#include <optional>

namespace cairn::pretrain {

/// The peak operations per second of a rank's device; none if it is unknown.
std::optional<double> peak_flops(const RunParts& parts);

/// Operations of forward and backward for a sample of `sequence` tokens, by
/// Megatron's formula.
double flops_per_sample(const RunParts& parts, std::int64_t sequence);

} // namespace cairn::pretrain
