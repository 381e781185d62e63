#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::config {

struct LoggingConfig {
  std::optional<std::int64_t> steps_per_print; ///< absent: never
  bool wall_clock_breakdown = false;
  bool memory_breakdown = false;
  bool dump_state = false;
};

/// TensorBoard event files, or CSV files: `output_path/job_name/…`.
struct MonitorConfig {
  bool enabled = false;
  std::string output_path;
  std::string job_name = "DeepSpeedJobName";
};

struct FlopsProfilerConfig {
  bool enabled = false;
  double recompute_fwd_factor = 0.0;
  std::int64_t profile_step = 1;
  std::int64_t module_depth = -1; ///< -1: down to the innermost modules
  std::int64_t top_modules = 1;
  bool detailed = true;
  std::optional<std::string> output_file; ///< absent: standard output
};

struct CommsLoggerConfig {
  bool enabled = false;
  bool verbose = false;
  bool prof_all = true;
  bool debug = false;
  std::vector<std::string> prof_ops;
};

/// The timer behind the samples-per-second figure.
struct ThroughputTimerConfig {
  bool enabled = true;
  bool synchronized = true;
};

} // namespace cairn::config
