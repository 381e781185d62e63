#include "distributed/backends/operation.h"

#include <utility>

namespace cairn::distributed {

Operation::Operation(
    CollectiveRecord record,
    std::shared_ptr<const std::vector<int>> members,
    Clock::time_point deadline,
    OnEnd on_end)
    : record_(std::move(record)),
      members_(std::move(members)),
      deadline_(deadline),
      on_end_(std::move(on_end)) {}

void Operation::expect(int parts) {
  const std::lock_guard lock(mutex_);
  parts_ = parts;
}

void Operation::part_ended(const std::string& error) {
  {
    const std::lock_guard lock(mutex_);
    if (library_error_.empty()) {
      library_error_ = error;
    }
    if (--parts_ > 0 || ended_) {
      return;
    }
  }
  // The watchdog ends a failed operation: it first finds out which rank is to
  // blame.
  on_end_(*this, library_error_);
}

void Operation::end_when(std::function<bool()> is_over) {
  const std::lock_guard lock(mutex_);
  is_over_ = std::move(is_over);
}

bool Operation::is_over() const {
  const std::lock_guard lock(mutex_);
  return is_over_ && is_over_();
}

void Operation::on_abort(std::function<void()> abort) {
  {
    const std::lock_guard lock(mutex_);
    if (!error_) {
      abort_ = std::move(abort);
      return;
    }
  }
  abort();
}

void Operation::on_success(std::function<void(Clock::duration)> listen) {
  const std::lock_guard lock(mutex_);
  on_success_ = std::move(listen);
}

void Operation::fail(std::shared_ptr<const CommError> error) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) {
      return;
    }
    ended_ = true;
    error_ = std::move(error);
  }
  changed_.notify_all();
}

void Operation::abort_if_failed() {
  std::function<void()> abort;
  {
    const std::lock_guard lock(mutex_);
    if (error_) {
      abort = std::exchange(abort_, nullptr);
    }
  }
  if (abort) {
    abort();
  }
}

void Operation::succeed() {
  std::function<void(Clock::duration)> listen;
  {
    const std::lock_guard lock(mutex_);
    listen = std::exchange(on_success_, nullptr);
  }
  if (listen) {
    listen(Clock::now() - record_.called);
  }
  {
    const std::lock_guard lock(mutex_);
    if (ended_) {
      return;
    }
    ended_ = true;
  }
  changed_.notify_all();
}

bool Operation::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void Operation::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended_; });
  if (error_) {
    throw CommError(*error_);
  }
}

void Operation::throw_if_failed() const {
  const std::lock_guard lock(mutex_);
  if (error_) {
    throw CommError(*error_);
  }
}

} // namespace cairn::distributed
