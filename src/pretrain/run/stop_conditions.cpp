#include "pretrain/run/stop_conditions.h"

#include "zero/internal/host_memory.h"
#include "zero/internal/sum_over.h"

#include <ATen/ops/full.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <signal.h>

#include <array>
#include <exception>
#include <utility>

namespace cairn::pretrain {

namespace {

constexpr std::array stopping_signals{SIGTERM, SIGINT};
volatile sig_atomic_t received = 0;

extern "C" void cairn_remember_signal(int signal) {
  received = signal;
}

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  // A user who presses Ctrl-C twice means now. SIGTERM comes more than once by
  // itself: from a scheduler to every process, and from the launcher as well.
  action.sa_flags = signal == SIGINT ? static_cast<int>(SA_RESETHAND) : 0;
  ::sigaction(signal, &action, nullptr);
}

constexpr std::int64_t go_on = 0;
constexpr std::int64_t out_of_time = 1;
constexpr std::int64_t got_signal = 2;

} // namespace

StopConditions::StopConditions(
    const config::TrainingFlags& flags,
    distributed::ProcessGroup world)
    : interval_(flags.exit_interval),
      on_signal_(flags.exit_signal_handler),
      world_(std::move(world)) {
  if (flags.exit_duration_in_mins) {
    deadline_ = std::chrono::steady_clock::now() +
        std::chrono::minutes(*flags.exit_duration_in_mins);
  }
  if (on_signal_) {
    received = 0;
    for (const int signal : stopping_signals) {
      set_handler(signal, cairn_remember_signal);
    }
  }
}

StopConditions::~StopConditions() {
  if (on_signal_) {
    for (const int signal : stopping_signals) {
      set_handler(signal, SIG_DFL);
    }
  }
  if (answer_ && !answer_->is_there()) {
    // The GPU may still write it, and after a failure nobody may wait for that.
    new at::Tensor(answer_->value); // NOLINT: kept for ever
  }
}

bool StopConditions::Answer::is_there() const {
  try {
    return arrived.query();
  } catch (const std::exception&) {
    return false; // the GPU has failed
  }
}

/// The most urgent reason of all ranks; over NCCL, of the call before.
std::int64_t StopConditions::most_of_all(std::int64_t mine) {
  using distributed::ReduceOp;
  if (world_.backend() != "nccl") {
    return zero::sum_over(world_, at::full({1}, mine, at::kLong), ReduceOp::max)
        .item<std::int64_t>();
  }
  std::int64_t most = go_on;
  if (answer_) {
    answer_->arrived.synchronize();
    most = *answer_->value.const_data_ptr<std::int64_t>();
  } else {
    answer_.emplace(Answer{
        .value = zero::host_memory(1, at::kLong, /*pin=*/true),
        .arrived = c10::Event(at::kCUDA)});
  }
  const at::Tensor reason =
      at::full({1}, mine, at::TensorOptions(at::kCUDA).dtype(at::kLong));
  world_.all_reduce(reason, ReduceOp::max).wait();
  answer_->value.copy_(reason, /*non_blocking=*/true);
  answer_->arrived.record(
      c10::impl::VirtualGuardImpl(at::kCUDA).getStream(reason.device()));
  return most;
}

std::optional<Ended> StopConditions::after(std::int64_t iteration) {
  if (deadline_ || on_signal_) {
    std::int64_t mine = go_on;
    if (deadline_ && std::chrono::steady_clock::now() > *deadline_) {
      mine = out_of_time;
    }
    if (on_signal_ && received != 0) {
      mine = got_signal;
    }
    if (const std::int64_t most = most_of_all(mine); most != go_on) {
      return most == got_signal ? Ended::by_signal : Ended::duration;
    }
  }
  if (interval_ && iteration % *interval_ == 0) {
    return Ended::interval;
  }
  return std::nullopt;
}

} // namespace cairn::pretrain
