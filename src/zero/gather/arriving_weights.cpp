#include "zero/internal/arriving_weights.h"

#include <utility>

namespace cairn::zero {

ArrivingWeights::ArrivingWeights(const FlatParameters& parameters)
    : waits_(static_cast<std::size_t>(parameters.buckets())), observer_(*this) {
  for (int b = 0; b < parameters.buckets(); ++b) {
    observer_.watch(parameters.storage(b), b);
  }
}

ArrivingWeights::~ArrivingWeights() {
  for (std::size_t b = 0; b < waits_.size(); ++b) {
    wait_for(static_cast<int>(b)); // the memory must outlive the transfer
  }
}

void ArrivingWeights::add(int bucket, std::function<void()> wait) {
  const std::lock_guard lock(mutex_);
  waits_[static_cast<std::size_t>(bucket)] = std::move(wait);
}

void ArrivingWeights::wait_all() {
  for (std::size_t b = 0; b < waits_.size(); ++b) {
    wait_for(static_cast<int>(b));
  }
  const std::lock_guard lock(mutex_);
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void ArrivingWeights::before_use(int bucket, std::int64_t) noexcept {
  wait_for(bucket);
}

void ArrivingWeights::wait_for(int bucket) noexcept {
  const std::lock_guard lock(mutex_);
  const auto wait =
      std::exchange(waits_[static_cast<std::size_t>(bucket)], nullptr);
  if (!wait) {
    return;
  }
  try {
    wait();
  } catch (...) { // libtorch would swallow it here
    failure_ = std::current_exception();
  }
}

} // namespace cairn::zero
