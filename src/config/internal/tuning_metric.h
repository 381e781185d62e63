#pragma once

// How `cairn tune` and the engine of a program that it tries out meet.

namespace cairn::config {

/// A variable of the environment, "3-5:FILE": rank 0 of a training measures
/// these updates and writes the file, a JSON object with `latency`
/// (milliseconds of an update), `throughput` (samples a second) and
/// `memory_bytes`.
inline constexpr const char* tuning_metric_variable = "CAIRN_TUNING_METRIC";

} // namespace cairn::config
