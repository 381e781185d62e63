#pragma once

#include "operation.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace cairn::distributed {

/// Runs the collectives of a group one after the other, in the order of the
/// calls: in a thread of its own while the caller computes, or in the caller's,
/// if it waits before that thread has come round to it.
class SharedMemoryQueue {
 public:
  SharedMemoryQueue() = default;
  /// Work that is under way must be able to end.
  ~SharedMemoryQueue();
  SharedMemoryQueue(const SharedMemoryQueue&) = delete;
  SharedMemoryQueue& operator=(const SharedMemoryQueue&) = delete;

  /// What `work` throws ends the operation as its error.
  void add(std::shared_ptr<Operation> operation, std::function<void()> work);
  /// Works until the operation has ended or another thread is at it.
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
  std::thread thread_; ///< once there is work
};

} // namespace cairn::distributed
