#pragma once

#include <cairn/config/flags.h>
#include <cairn/monitor/iteration.h>
#include <cairn/monitor/scalar_sink.h>

#include <cstdint>
#include <optional>
#include <vector>

// What an iteration's values are called in each of the files that they go to.

namespace cairn::monitor {

/// Values with what the log knows beside them. `speed` only where a log line
/// is due.
struct IterationRecord {
  const IterationValues& values;
  const RunSize& run;
  std::optional<IterationSpeed> speed{};
};

/// Megatron-DeepSpeed's: `lm-loss-training/lm loss` over iterations, and again
/// as `… vs samples` and `… vs tokens`. The flags choose what is written.
std::vector<Scalar> megatron_scalars(
    const IterationRecord& record,
    const config::LoggingFlags& choice);
std::vector<Scalar> megatron_scalars(
    const ValidationValues& values,
    const config::LoggingFlags& choice);

/// DeepSpeed's: `Train/Samples/lr`, over samples.
std::vector<Scalar> deepspeed_scalars(const IterationRecord& record);
std::vector<Scalar> deepspeed_scalars(const ValidationValues& values);

/// As the log line calls them, over iterations: everything that is known.
std::vector<Scalar> plain_scalars(const IterationRecord& record);
std::vector<Scalar> plain_scalars(const ValidationValues& values);

} // namespace cairn::monitor
