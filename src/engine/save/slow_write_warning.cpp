#include "engine/save/slow_write_warning.h"

#include "base/internal/sync_file.h"

#include <utility>

namespace cairn::inline engine {

SlowWriteWarning::SlowWriteWarning(
    Logger logger,
    std::string what,
    std::chrono::milliseconds patience)
    : logger_(logger),
      what_(std::move(what)),
      thread_([this, patience] { watch(patience); }) {}

SlowWriteWarning::~SlowWriteWarning() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SlowWriteWarning::watch(std::chrono::milliseconds patience) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  for (auto due = begin + patience;
       !changed_.wait_until(lock, due, [&] { return done_; });
       due = begin + 2 * (due - begin)) {
    logger_.warning(
        "{} for {:.0f} s by now: the disk is slow or hangs ({} limits a sync)",
        what_,
        std::chrono::duration<double>(due - begin).count(),
        disk_timeout_variable);
  }
}

} // namespace cairn::engine
