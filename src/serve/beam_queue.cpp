#include "serve/beam_queue.h"

#include <exception>
#include <utility>

namespace cairn::serve {

BeamQueue::BeamQueue(
    generate::TextModel model,
    const generate::TextBatchOptions& options,
    std::size_t most_searches)
    : model_(std::move(model)),
      options_(options),
      most_searches_(most_searches),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

BeamQueue::~BeamQueue() {
  thread_.request_stop();
  thread_.join();
}

bool BeamQueue::submit(Search search) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= most_searches_) {
      return false;
    }
    waiting_.push_back(std::move(search));
  }
  news_.notify_one();
  return true;
}

void BeamQueue::work(const std::stop_token& stop) {
  while (true) {
    std::unique_lock lock(mutex_);
    news_.wait(lock, stop, [&] { return !waiting_.empty(); });
    if (stop.stop_requested()) {
      return;
    }
    const Search search = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    run(search);
  }
}

void BeamQueue::run(const Search& search) {
  try {
    if (!beams_) {
      beams_.emplace(model_, widest, options_);
    }
    search.on_found(beams_->after(search.prompt, search.options), "");
  } catch (const std::exception& error) {
    search.on_found({}, error.what());
  }
}

} // namespace cairn::serve
