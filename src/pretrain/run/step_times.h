#pragma once

#include <c10/core/Device.h>
#include <cairn/config/config.h>
#include <cairn/distributed/process_group.h>
#include <cairn/monitor/timers.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::pretrain {

/// Timers for the engine and the loop. If times are to be shown, they wait for
/// the device.
std::shared_ptr<monitor::Timers> make_timers(
    const config::Config& config,
    at::Device device);

/// The parts of a step's time, as `--timing-log-level` and
/// `--timing-log-option` ask for them.
class StepTimes {
 public:
  StepTimes(
      const config::LoggingFlags& flags,
      distributed::ProcessGroup world,
      std::shared_ptr<const monitor::Timers> timers);

  /// Milliseconds of one iteration, the mean of `iterations` since the last
  /// call. Nothing at level 0.
  std::vector<monitor::NamedValue> take(std::int64_t iterations);
  /// The times of all ranks as text; empty if nobody asks. Every rank calls it.
  std::string report(std::int64_t iterations);

 private:
  std::vector<monitor::NamedValue> taken(
      monitor::TimerReader& reader,
      std::int64_t iterations) const;

  std::span<const std::string_view> names_;
  std::string option_; ///< empty: times of this rank alone
  distributed::ProcessGroup world_;
  std::shared_ptr<const monitor::Timers> timers_;
  monitor::TimerReader here_;
  monitor::TimerReader everywhere_;
};

} // namespace cairn::pretrain
