#include "distributed/shared_memory/shared_memory_queue.h"

#include "distributed/backends/library_text.h"

#include <exception>
#include <string>
#include <utility>

namespace cairn::distributed {

SharedMemoryQueue::~SharedMemoryQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void SharedMemoryQueue::add(
    std::shared_ptr<Operation> operation,
    std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) {
      thread_ = std::thread([this] { serve(); });
    }
    jobs_.push_back({std::move(operation), std::move(work)});
  }
  changed_.notify_one();
}

void SharedMemoryQueue::help(const Operation& operation) {
  std::unique_lock lock(mutex_);
  while (!running_ && !jobs_.empty() && !operation.ended()) {
    run_next(lock);
  }
}

void SharedMemoryQueue::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] {
      return stopping_ || (!running_ && !jobs_.empty());
    });
    if (stopping_) {
      return;
    }
    run_next(lock);
  }
}

void SharedMemoryQueue::run_next(std::unique_lock<std::mutex>& lock) {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  running_ = true;
  lock.unlock();
  std::string error;
  try {
    job.work();
  } catch (const std::exception& thrown) {
    error = library_text(thrown);
  }
  // Releases the work's tensors before anyone goes on.
  job.work = nullptr;
  job.operation->part_ended(error);
  lock.lock();
  running_ = false;
  if (!jobs_.empty()) {
    changed_.notify_one();
  }
}

} // namespace cairn::distributed
