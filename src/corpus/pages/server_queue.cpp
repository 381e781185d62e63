#include "corpus/pages/server_queue.h"

#include "corpus/internal/web_address.h"

#include <algorithm>

namespace cairn::corpus {
namespace {

/// Tasks that wait at most. The more there are, the more servers are busy at a
/// time.
constexpr std::size_t most_waiting = 100'000;

} // namespace

bool ServerQueue::add(PageTask task) {
  std::unique_lock lock(mutex_);
  not_full_.wait(lock, [&] { return waiting_ < most_waiting || stopped_; });
  if (!stopped_) {
    put(std::move(task));
  }
  return !stopped_;
}

void ServerQueue::put(PageTask task) {
  forget_idle();
  Entry& entry = servers_[server_of(task.now)];
  if (entry.tasks.empty() && !entry.busy) {
    // First come, first served.
    entry.ready = std::max(entry.ready, Clock::now());
    ready_.emplace(entry.ready, &entry);
  }
  entry.tasks.push_back(std::move(task));
  ++waiting_;
  changed_.notify_one();
}

void ServerQueue::forget_idle() {
  if (servers_.size() < forget_at_) {
    return;
  }
  const auto now = Clock::now();
  std::erase_if(servers_, [&](const Servers::value_type& each) {
    return each.second.tasks.empty() && !each.second.busy &&
        each.second.ready <= now;
  });
  forget_at_ = std::max(forget_at_, 2 * servers_.size());
}

void ServerQueue::finish() {
  const std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

void ServerQueue::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
  not_full_.notify_all();
}

std::optional<ServerQueue::Turn> ServerQueue::take() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (stopped_ || (finished_ && waiting_ == 0 && busy_ == 0)) {
      return std::nullopt;
    }
    if (ready_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto [when, entry] = *ready_.begin();
    if (when > Clock::now()) {
      changed_.wait_until(lock, when);
      continue;
    }
    ready_.erase(ready_.begin());
    Turn turn{std::move(entry->tasks.front()), entry};
    entry->tasks.pop_front();
    entry->busy = true;
    --waiting_;
    ++busy_;
    not_full_.notify_one();
    return turn;
  }
}

void ServerQueue::done(
    const Turn& turn,
    std::chrono::milliseconds pause,
    std::optional<PageTask> again) {
  const std::lock_guard lock(mutex_);
  Entry& entry = *turn.entry;
  entry.ready = Clock::now() + pause;
  if (again) {
    put(std::move(
        *again)); // while `entry` is busy, so that it is not forgotten
  }
  entry.busy = false;
  --busy_;
  if (!entry.tasks.empty()) {
    ready_.emplace(entry.ready, &entry);
  }
  changed_.notify_all();
}

} // namespace cairn::corpus
