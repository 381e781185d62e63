#include "base/internal/thread_pool.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <exception>

namespace cairn::inline base {
namespace {

/// The state of one parallel_for. Shared with the helper jobs: a helper that
/// starts only after the call has returned must still find this object, and
/// finds no work in it.
class Loop {
 public:
  Loop(
      std::size_t count,
      std::size_t grain,
      const std::function<void(std::size_t, std::size_t)>& body)
      : count_(count), grain_(grain), body_(body) {}

  /// Works off stretches until none is left.
  void work() {
    std::unique_lock lock(mutex_);
    while (next_ < count_) {
      const std::size_t begin = next_;
      next_ = begin + std::min(grain_, count_ - begin);
      const std::size_t end = next_;
      ++running_;
      lock.unlock();
      std::exception_ptr error;
      try {
        body_(begin, end);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      --running_;
      if (error) {
        next_ = count_;
        if (!error_) {
          error_ = std::move(error);
        }
      }
    }
    if (running_ == 0) {
      finished_.notify_all();
    }
  }

  /// Waits for the stretches that other threads have begun. Called after
  /// work(), when no others remain.
  void wait() {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return running_ == 0; });
    if (error_) {
      // Moved out, so that the exception is destroyed in the caller's handler
      // and not on a late helper's thread.
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
  }

 private:
  const std::size_t count_;
  const std::size_t grain_;
  /// Belongs to the caller. Only a thread that holds a stretch touches it, and
  /// the caller waits for that thread.
  const std::function<void(std::size_t, std::size_t)>& body_;
  std::mutex mutex_;
  std::condition_variable finished_;
  std::size_t next_ = 0;
  std::size_t running_ = 0;
  std::exception_ptr error_;
};

} // namespace

ThreadPool::ThreadPool(Options options) : queue_limit_(options.queue_limit) {
  if (options.threads == 0 || options.queue_limit == 0) {
    throw InternalError(
        {.what = "a thread pool needs a thread and room for a job"});
  }
  threads_.reserve(options.threads);
  for (std::size_t i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

void ThreadPool::parallel_for(
    std::size_t count,
    std::size_t grain,
    const std::function<void(std::size_t, std::size_t)>& body) {
  if (count == 0) {
    return;
  }
  grain = std::max<std::size_t>(grain, 1);
  const auto loop = std::make_shared<Loop>(count, grain, body);
  const std::size_t stretches = (count - 1) / grain + 1;
  const std::size_t helpers = std::min(size(), stretches - 1);
  // A full queue means that the threads have enough to do, so fewer helpers
  // will do. Waiting for room inside a job could block for ever.
  for (std::size_t i = 0; i < helpers; ++i) {
    if (!try_push([loop] { loop->work(); })) {
      break;
    }
  }
  loop->work();
  loop->wait();
}

void ThreadPool::push(std::function<void()> job) {
  {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [&] { return queue_.size() < queue_limit_; });
    queue_.push_back(std::move(job));
  }
  not_empty_.notify_one();
}

bool ThreadPool::try_push(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= queue_limit_) {
      return false;
    }
    queue_.push_back(std::move(job));
  }
  not_empty_.notify_one();
  return true;
}

void ThreadPool::work(const std::stop_token& stop) {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      // After a stop request this no longer waits, but it still returns whether
      // there is a job.
      if (!not_empty_.wait(lock, stop, [&] { return !queue_.empty(); })) {
        return;
      }
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    not_full_.notify_one();
    job();
  }
}

} // namespace cairn::base
