#pragma once

#include "monitor/internal/throughput.h"

#include <cairn/base/log.h>
#include <cairn/config/deepspeed_config.h>
#include <cairn/monitor/timers.h>
#include <cairn/optim/parameter_groups.h>

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace cairn::inline engine {

/// The lines that rank 0 of an engine logs. Every `steps_per_print` updates:
/// the step, samples per second with memory, and the times of the passes if
/// `wall_clock_breakdown` is on, which come every 10 updates without that key.
/// At each phase of a step: the memory, if `memory_breakdown` is on.
class StepLog {
 public:
  /// A log with these timers, or with its own where `timers` is unset.
  StepLog(
      const config::DeepSpeedConfig& config,
      const Logger& logger,
      at::Device device,
      bool speaks,
      std::shared_ptr<monitor::Timers> timers);

  void begin_pass(); ///< with the first forward of a micro batch
  /// Comes to a phase of a step, such as "after forward".
  void phase(std::string_view name);
  monitor::Timers& timers() { return *timers_; }
  std::shared_ptr<const monitor::Timers> shared_timers() const {
    return timers_;
  }

  struct Step {
    std::int64_t global_step = 0;
    std::int64_t skipped = 0;
    bool ends_accumulation = false;
    std::span<const optim::GroupValues> groups;
  };
  void end_step(const Step& step);

 private:
  void say_progress(const Step& step) const;

  Logger logger_;
  at::Device device_;
  bool speaks_;
  std::int64_t every_;
  std::int64_t times_every_; ///< updates between lines of times; 0: never
  bool memory_breakdown_;
  bool has_throughput_;
  std::int64_t updates_ = 0;       ///< that were made
  std::int64_t memory_before_ = 0; ///< bytes at the phase before
  bool in_pass_ = false;
  monitor::ThroughputTimer throughput_;
  std::shared_ptr<monitor::Timers> timers_;
  monitor::TimerReader times_;
};

} // namespace cairn::engine
