#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

/// Counts what libtorch's allocator hands out on the CPU, while it lives.
class TensorBytes {
 public:
  TensorBytes();
  /// The most at one time, since the object was made.
  double most() const;

 private:
  class Counter;
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};
