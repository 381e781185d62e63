#pragma once

#include "zero/internal/gradient_factor.h"
#include "zero/internal/gradient_reducer.h"

namespace cairn::zero {

/// A step of an optimizer whose work on the GPU is the same in every update: it
/// reads the numbers that differ from the GPU's memory. The second half can
/// therefore be recorded as a CUDA graph, and repeated after the first half.
class StepInHalves {
 public:
  virtual ~StepInHalves() = default;

  /// Counts an update, and sends its numbers on their way to the GPU. The host
  /// does not wait for them. `factor` multiplies every gradient.
  virtual void send_numbers(double factor) = 0;
  /// Queues the update. `factor` is that of send_numbers(), or on the GPU and
  /// multiplied with it.
  virtual void queue_update(
      const GradientReducer& gradients,
      const GradientFactor& factor) = 0;
};

} // namespace cairn::zero
