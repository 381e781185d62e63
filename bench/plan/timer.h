#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

/// Measures a call: returns the seconds that a GPU, or a test's stand-in, takes
/// for it.
using Timer = std::function<double(const std::function<void()>& call)>;

/// A timer of what calls queue on the GPU. Several of them are queued behind
/// copies, so that the time in which the host launches kernels does not count,
/// as in a training whose host is ahead. The first call is not counted: it may
/// try algorithms.
class GpuTimer {
 public:
  GpuTimer();

  /// Seconds of one call, the median of some rounds.
  double operator()(const std::function<void()>& call) const;

 private:
  double round(const std::function<void()>& call, int calls) const;

  at::Tensor from_;
  at::Tensor to_;
};
