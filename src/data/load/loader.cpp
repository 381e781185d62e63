#include <cairn/data/loader.h>

#include <algorithm>

namespace cairn::data {

Loader::Loader(Sampler sampler, Collate collate, Options options)
    : sampler_(std::move(sampler)),
      collate_(std::move(collate)),
      slots_(options.workers * std::max<std::size_t>(options.prefetch, 1)) {
  for (std::size_t i = 0; i < options.workers; ++i) {
    workers_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

Loader::~Loader() {
  for (auto& worker : workers_) {
    worker.request_stop(); // stop all before joining the first
  }
}

Loader::Slot Loader::make(IndexBatch indices) const {
  Slot slot{.ready = true};
  try {
    Batch batch;
    collate_(indices.indices, batch);
    batch.indices = std::move(indices.indices);
    batch.consumed_samples = indices.consumed_samples;
    slot.batch = std::move(batch);
  } catch (...) {
    slot.error = std::current_exception();
  }
  return slot;
}

void Loader::work(const std::stop_token& stop) {
  for (;;) {
    std::unique_lock lock(mutex_);
    const bool wanted = room_.wait(lock, stop, [this] {
      return at_end_ || begun_ - handed_out_ < slots_.size();
    });
    if (!wanted || at_end_) {
      return;
    }
    // The sampler runs under the lock, so that batches are numbered in its
    // order.
    std::optional<IndexBatch> indices;
    std::exception_ptr error;
    try {
      indices = sampler_();
    } catch (...) {
      error = std::current_exception();
    }
    Slot& slot = slots_[begun_++ % slots_.size()];
    if (!indices) {
      at_end_ = true;
      slot = {.ready = true, .error = error};
      ready_.notify_all();
      room_.notify_all();
      return;
    }
    lock.unlock();
    Slot made = make(std::move(*indices));
    lock.lock();
    slot = std::move(made);
    ready_.notify_all();
  }
}

std::optional<Batch> Loader::next() {
  Slot slot;
  if (workers_.empty()) {
    if (auto indices = sampler_()) {
      slot = make(std::move(*indices));
    }
  } else {
    std::unique_lock lock(mutex_);
    if (at_end_ && handed_out_ == begun_) {
      return std::nullopt;
    }
    Slot& place = slots_[handed_out_ % slots_.size()];
    ready_.wait(lock, [&] { return place.ready; });
    slot = std::exchange(place, {});
    ++handed_out_;
    room_.notify_one();
  }
  if (slot.error) {
    std::rethrow_exception(slot.error);
  }
  return std::move(slot.batch);
}

} // namespace cairn::data
