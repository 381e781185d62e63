#include "plan/tensor_bytes.h"

#include <algorithm>
#include <atomic>

class TensorBytes::Counter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(
      void* /*pointer*/,
      std::int64_t bytes,
      std::size_t /*allocated*/,
      std::size_t /*reserved*/,
      c10::Device device) override {
    if (device.is_cpu()) {
      now_ += bytes;
      most_ = std::max(most_.load(), now_.load());
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t most() const { return most_; }

 private:
  std::atomic<std::int64_t> now_ = 0;
  std::atomic<std::int64_t> most_ = 0;
};

TensorBytes::TensorBytes()
    : counter_(std::make_shared<Counter>()),
      guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

double TensorBytes::most() const {
  return static_cast<double>(counter_->most());
}
