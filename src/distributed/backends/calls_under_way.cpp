#include "distributed/backends/calls_under_way.h"

namespace cairn::distributed {

void CallsUnderWay::began(std::size_t parts) {
  const std::lock_guard lock(mutex_);
  parts_ += parts;
}

void CallsUnderWay::part_finished() {
  {
    const std::lock_guard lock(mutex_);
    --parts_;
  }
  changed_.notify_all();
}

bool CallsUnderWay::give_up() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::open) {
      return false;
    }
    state_ = State::giving_up;
  }
  changed_.notify_all();
  return true;
}

void CallsUnderWay::given_up() {
  {
    const std::lock_guard lock(mutex_);
    state_ = State::given_up;
  }
  changed_.notify_all();
}

CallsUnderWay::State CallsUnderWay::close(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return parts_ == 0 || state_ != State::open; });
  if (state_ == State::open) {
    state_ = State::closed;
  }
  changed_.wait_for(lock, patience, [&] { return state_ != State::giving_up; });
  return state_;
}

} // namespace cairn::distributed
