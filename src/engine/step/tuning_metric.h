#pragma once

#include "engine/build/job.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace cairn::inline engine {

/// Measures some updates and writes what it finds, if `cairn tune` asks for it
/// in the environment (tuning_metric_variable), or the JSON's
/// `autotuning.metric_path` does.
class TuningMetric {
 public:
  explicit TuningMetric(const Job& job);
  void end_update(std::int64_t samples);

 private:
  using Clock = std::chrono::steady_clock;
  void read_variable(const std::string& text);
  void write(double seconds) const;

  const Job& job_;
  std::filesystem::path file_; ///< empty: nothing is asked for
  std::int64_t first_ = 0;
  std::int64_t last_ = 0;
  std::int64_t updates_ = 0;
  std::int64_t samples_ = 0;
  Clock::time_point begin_;
};

} // namespace cairn::engine
