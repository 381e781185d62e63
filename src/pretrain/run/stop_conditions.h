#pragma once

#include "pretrain/internal/pretrain.h"

#include <cairn/config/flags.h>
#include <cairn/distributed/process_group.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace cairn::pretrain {

/// Reasons to stop before the end. What only one rank knows (a signal, its
/// clock), the ranks tell each other after every iteration; without such
/// reasons nothing is exchanged.
class StopConditions {
 public:
  /// With --exit-signal-handler SIGTERM and SIGINT are caught from here to the
  /// end, a second SIGINT not.
  StopConditions(
      const config::TrainingFlags& flags,
      distributed::ProcessGroup world);
  ~StopConditions();
  StopConditions(const StopConditions&) = delete;
  StopConditions& operator=(const StopConditions&) = delete;

  /// Every rank asks, after the same iterations.
  std::optional<Ended> after(std::int64_t iteration) const;

 private:
  std::optional<std::int64_t> interval_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool on_signal_;
  distributed::ProcessGroup world_;
};

} // namespace cairn::pretrain
