#pragma once

#include "engine/build/job.h"
#include "engine/build/model_parameters.h"
#include "monitor/internal/step_profiler.h"

#include <ATen/record_function.h>
#include <cairn/monitor/timers.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline engine {

/// The profile of one update that the JSON's `flops_profiler` asks for: made on
/// rank 0, at the first update from `profile_step` on at which no other
/// profiler runs and no algorithms are tried, and written when the update is
/// done.
class StepProfile {
 public:
  StepProfile(
      const Job& job,
      const ModelParameters& parameters,
      const monitor::Timers& timers);
  /// Warns if the update never came.
  ~StepProfile();
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  /// Begins a forward pass of training; `updates` were made before.
  void begin_forward(std::int64_t updates);
  void end_forward();
  void begin_backward();
  void end_backward();
  /// Called after an update, or one that was skipped.
  void end_update();
  /// Gives the profile up: the step failed.
  void abandon();

 private:
  std::vector<monitor::StepProfiler::Parameter> parameters() const;
  /// Writes the profile; false where it is not what an update takes.
  bool report();
  void write(const std::string& text) const;

  const Job& job_;
  const ModelParameters& parameters_;
  const monitor::Timers& timers_;
  bool due_ = false; ///< it is still to be made
  bool said_busy_ = false;
  std::unique_ptr<monitor::StepProfiler> profiler_;
  std::optional<at::RecordFunction> pass_;
  monitor::TimerReader times_;
  std::int64_t updates_ = 0; ///< before the profiled one
  std::int64_t passes_ = 0;
};

} // namespace cairn::engine
