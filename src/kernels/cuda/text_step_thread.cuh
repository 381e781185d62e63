#pragma once

#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/text_step_messages.cuh"
#include "kernels/cuda/text_step_plan.cuh"

#include <cstdint>

namespace cairn::kernels::cuda {

/// A thread of text_step.cu that computes: its place, and functions that all
/// parts of the step use.
class StepThread {
 public:
  __device__ StepThread(
      const TextStep& x,
      const StepPlan& plan,
      const Memory& memory)
      : x_(x),
        plan_(plan),
        memory_(memory),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ % warp_size),
        warp_(thread_ / warp_size),
        messages_(static_cast<uint4*>(x.messages)),
        position_(x.row.positions[0]),
        number_(static_cast<unsigned>(
            x.number * static_cast<std::uint64_t>(x.shape.layers))) {}

 protected:
  __device__ void meet() { meet_first(step_threads); }

  /// The number of the messages of this layer.
  __device__ unsigned own_number() const { return number_ & 0xffffU; }

  __device__ std::uint16_t* x_halves() {
    return reinterpret_cast<std::uint16_t*>(memory_.x);
  }

  const TextStep& x_;
  const StepPlan& plan_;
  const Memory& memory_;
  int thread_;
  int lane_;
  int warp_;
  uint4* messages_;
  int position_ = 0;
  unsigned number_ = 0; ///< of the layer's messages; its lower half counts
};

} // namespace cairn::kernels::cuda
