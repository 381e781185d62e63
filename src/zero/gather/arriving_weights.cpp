#include "zero/internal/arriving_weights.h"

#include <utility>

namespace cairn::zero {

ArrivingWeights::ArrivingWeights(const FlatParameters& parameters)
    : pending_(static_cast<std::size_t>(parameters.buckets())),
      observer_(*this) {
  for (int b = 0; b < parameters.buckets(); ++b) {
    observer_.watch(parameters.storage(b), b);
  }
}

ArrivingWeights::~ArrivingWeights() {
  for (std::size_t b = 0; b < pending_.size(); ++b) {
    before_use(static_cast<int>(b)); // the memory must outlive the transfer
  }
}

void ArrivingWeights::add(int bucket, distributed::Pending pending) {
  const std::lock_guard lock(mutex_);
  pending_[static_cast<std::size_t>(bucket)] = std::move(pending);
}

void ArrivingWeights::wait_all() {
  for (std::size_t b = 0; b < pending_.size(); ++b) {
    before_use(static_cast<int>(b));
  }
  const std::lock_guard lock(mutex_);
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void ArrivingWeights::before_use(int bucket) noexcept {
  const std::lock_guard lock(mutex_);
  auto pending =
      std::exchange(pending_[static_cast<std::size_t>(bucket)], std::nullopt);
  if (!pending) {
    return;
  }
  try {
    pending->wait();
  } catch (...) { // libtorch would swallow it here
    failure_ = std::current_exception();
  }
}

} // namespace cairn::zero
