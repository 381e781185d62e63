#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <utility>

namespace cairn::data {

/// Results that are awaited in the order in which their work was begun. What
/// is between the two ends is bounded by its weight; something heavier than the
/// limit passes alone.
template <typename Result>
class OrderedJobs {
 public:
  explicit OrderedJobs(std::size_t limit) : limit_(limit) {}

  /// Waits for room; false when nobody will take results any more.
  bool reserve(std::size_t weight) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return stopped_ || weight_ == 0 || weight_ + weight <= limit_;
    });
    if (!stopped_) {
      weight_ += weight;
    }
    return !stopped_;
  }
  void push(std::future<Result> result, std::size_t weight) {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(result), weight);
    changed_.notify_all();
  }
  /// Waits until all that was pushed has been taken and released.
  void drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopped_ || weight_ == 0; });
  }
  /// No more is coming.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  /// No more is taken.
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  bool stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }

  /// The next result, with its weight; nothing after the last.
  std::optional<std::pair<std::future<Result>, std::size_t>> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) {
      return std::nullopt;
    }
    auto next = std::move(queue_.front());
    queue_.pop_front();
    return next;
  }
  void release(std::size_t weight) {
    const std::lock_guard lock(mutex_);
    weight_ -= weight;
    changed_.notify_all();
  }

 private:
  std::size_t limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<std::future<Result>, std::size_t>> queue_;
  std::size_t weight_ = 0;
  bool closed_ = false;
  bool stopped_ = false;
};

} // namespace cairn::data
