#pragma once

#include "pretrain/internal/pretrain.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <cairn/config/flags.h>
#include <cairn/distributed/process_group.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace cairn::pretrain {

/// Reasons to stop before the end. After every iteration ranks exchange reasons
/// that only one may know (a signal, its clock); if the flags have no such
/// reasons, nothing is exchanged. Over NCCL the answer is read one iteration
/// later, so that the host does not wait for the iteration's work.
class StopConditions {
 public:
  /// Catches SIGTERM and SIGINT with --exit-signal-handler until the destructor
  /// runs. A second SIGINT is not caught.
  StopConditions(
      const config::TrainingFlags& flags,
      distributed::ProcessGroup world);
  ~StopConditions();
  StopConditions(const StopConditions&) = delete;
  StopConditions& operator=(const StopConditions&) = delete;

  /// The reason to stop, if any. Every rank calls it, after the same
  /// iterations.
  std::optional<Ended> after(std::int64_t iteration);

 private:
  /// The answer of all ranks, on its way to the host.
  struct Answer {
    bool is_there() const;

    at::Tensor value; ///< in page-locked memory
    c10::Event arrived;
  };

  std::int64_t most_of_all(std::int64_t mine);

  std::optional<std::int64_t> interval_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool on_signal_;
  distributed::ProcessGroup world_;
  std::optional<Answer> answer_;
};

} // namespace cairn::pretrain
