#pragma once

#include <cairn/config/flags.h>
#include <cairn/monitor/event_file.h>
#include <cairn/monitor/run_values.h>

#include <cstdint>
#include <optional>
#include <vector>

// The names of an iteration's values in each kind of file.

namespace cairn::monitor {

/// Scalars with Megatron-DeepSpeed's names: `lm-loss-training/lm loss` over
/// iterations, and again as `… vs samples` and `… vs tokens`. The flags choose
/// which are written.
std::vector<Scalar> megatron_scalars(
    const IterationRecord& record,
    const config::LoggingFlags& choice);
std::vector<Scalar> megatron_scalars(
    const ValidationValues& values,
    const config::LoggingFlags& choice);

/// Scalars with DeepSpeed's names: `Train/Samples/lr`, over samples.
std::vector<Scalar> deepspeed_scalars(const IterationRecord& record);
std::vector<Scalar> deepspeed_scalars(const ValidationValues& values);

/// All known values under the names of the log line, over iterations.
std::vector<Scalar> plain_scalars(const IterationRecord& record);
std::vector<Scalar> plain_scalars(const ValidationValues& values);

} // namespace cairn::monitor
