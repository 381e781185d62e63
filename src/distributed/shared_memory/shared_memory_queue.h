#pragma once

#include "distributed/backends/operation.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace cairn::distributed {

/// Runs the collectives of a group one after the other, in the order of the
/// calls. They run in a thread of the queue while the caller computes, or in
/// the caller's thread if it waits before the queue's thread has begun.
class SharedMemoryQueue {
 public:
  SharedMemoryQueue() = default;
  /// Waits for the work under way, which must be able to end.
  ~SharedMemoryQueue();
  SharedMemoryQueue(const SharedMemoryQueue&) = delete;
  SharedMemoryQueue& operator=(const SharedMemoryQueue&) = delete;

  /// Adds `work` to the queue; an exception from it ends the operation as its
  /// error.
  void add(std::shared_ptr<Operation> operation, std::function<void()> work);
  /// Runs queued work until the operation has ended or another thread works.
  void help(const Operation& operation);

 private:
  struct Job {
    std::shared_ptr<Operation> operation;
    std::function<void()> work;
  };

  void serve();
  void run_next(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool running_ = false;
  bool stopping_ = false;
  std::thread thread_; ///< started with the first work
};

} // namespace cairn::distributed
