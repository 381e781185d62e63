#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::inline base {

/// A fixed number of threads that work off a queue in order. The destructor
/// finishes the submitted jobs, so every future gets an answer.
class ThreadPool {
 public:
  struct Options {
    std::size_t threads = 1; ///< at least one
    /// The number of queued jobs at which submit() blocks, so that a fast
    /// producer cannot fill the memory.
    std::size_t queue_limit = std::numeric_limits<std::size_t>::max();
  };

  explicit ThreadPool(std::size_t threads) : ThreadPool(Options{threads}) {}
  explicit ThreadPool(Options options);
  ~ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t size() const noexcept { return threads_.size(); }

  /// Runs `job` on a thread of the pool; the future holds its result or its
  /// exception. With a queue limit a job must not submit to its own pool: if
  /// all threads waited for room in the queue, none would make any.
  template <typename Job>
  [[nodiscard]] std::future<std::invoke_result_t<Job>> submit(Job job) {
    // Shared, because std::function needs a copyable target and a packaged_task
    // is not copyable.
    auto task =
        std::make_shared<std::packaged_task<std::invoke_result_t<Job>()>>(
            std::move(job));
    auto result = task->get_future();
    push([task = std::move(task)] { (*task)(); });
    return result;
  }

  /// Calls body(begin, end) over [0, count) in stretches of `grain` (the last
  /// may be shorter) and returns when all are done. The caller works too, so a
  /// job of the same pool may call this. When a body throws, stretches not yet
  /// begun are skipped and the first exception is rethrown here.
  void parallel_for(
      std::size_t count,
      std::size_t grain,
      const std::function<void(std::size_t begin, std::size_t end)>& body);

 private:
  void push(std::function<void()> job);
  bool try_push(std::function<void()> job);
  void work(const std::stop_token& stop);

  std::size_t queue_limit_;
  std::mutex mutex_;
  std::condition_variable_any not_empty_;
  std::condition_variable not_full_;
  std::deque<std::function<void()>> queue_;
  /// Declared last, so that the threads are joined before the members they use
  /// are destroyed.
  std::vector<std::jthread> threads_;
};

} // namespace cairn::base
