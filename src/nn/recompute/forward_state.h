#pragma once

#include "nn/internal/deferred_gradients.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace cairn::nn {

/// The state of the default random generators.
class RandomState {
 public:
  /// The state now, of the CPU and of the GPUs in use.
  static RandomState now();
  /// The state now of the same generators.
  RandomState now_of_these() const;
  void set() const;

 private:
  struct Each {
    at::Generator generator;
    at::Tensor state;
  };
  std::vector<Each> each_;
};

/// The autocast settings of this thread.
class AutocastState {
 public:
  static AutocastState now();
  void set() const;

 private:
  struct Each {
    at::DeviceType device;
    bool enabled;
    at::ScalarType dtype;
  };
  std::vector<Each> each_;
  bool cache_ = true;
};

/// Everything that a forward depends on besides its inputs and parameters.
struct ForwardState {
  RandomState random = RandomState::now();
  AutocastState autocast = AutocastState::now();
  std::shared_ptr<DeferredGradients> deferral = DeferWeightGradients::current();
};

/// Restores the state of a forward for as long as the scope lasts.
class [[nodiscard]] ForwardStateScope {
 public:
  explicit ForwardStateScope(const ForwardState& state);
  ~ForwardStateScope();
  ForwardStateScope(const ForwardStateScope&) = delete;
  ForwardStateScope& operator=(const ForwardStateScope&) = delete;

 private:
  RandomState random_;
  AutocastState autocast_;
  DeferWeightGradients deferral_;
};

} // namespace cairn::nn
