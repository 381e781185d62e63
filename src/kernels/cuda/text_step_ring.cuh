#pragma once

#include "kernels/cuda/text_step_plan.cuh"

#include <cstdint>

// The ring of slots to which text_step.cu copies weights.

namespace cairn::kernels::cuda {

/// Goes through the block's slices of units in the order in which they are
/// multiplied.
class Walk {
 public:
  __device__ Walk(const TextStep& x, const StepPlan& plan, const Memory& m)
      : x_(x), plan_(plan), memory_(m) {
    begin_product();
  }

  __device__ bool ended() const { return layer_ > x_.shape.layers; }
  /// Rows of the unit.
  __device__ int rows() const { return rows_; }
  /// The slice of one of these rows.
  __device__ const std::uint16_t* row(int i) const {
    return from_ + static_cast<std::int64_t>(i) * depth_;
  }

  __device__ void advance() {
    const Division& division = memory_.products[product()];
    from_ += plan_.columns;
    if (++slice_ < division.slices) {
      return;
    }
    if (++unit_ < division.each) {
      begin_unit();
      return;
    }
    unit_ = 0;
    if (++product_ == head || layer_ == x_.shape.layers) {
      product_ = 0;
      ++layer_;
    }
    if (!ended()) {
      begin_product();
    }
  }

 private:
  __device__ int product() const {
    return layer_ == x_.shape.layers ? static_cast<int>(head) : product_;
  }
  __device__ void begin_product() {
    weight_ = static_cast<const std::uint16_t*>(
        memory_.layers[layer_].products[product_].weight);
    depth_ = product() == down ? x_.shape.inner : x_.shape.hidden;
    begin_unit();
  }
  __device__ void begin_unit() {
    const Division& division = memory_.products[product()];
    const unsigned unit = blockIdx.x * division.each + unit_;
    const int begin = division.begin(unit);
    rows_ = division.begin(unit + 1) - begin;
    from_ = weight_ + static_cast<std::int64_t>(begin) * depth_;
    slice_ = 0;
  }

  const TextStep& x_;
  const StepPlan& plan_;
  const Memory& memory_;
  const std::uint16_t* weight_ = nullptr;
  const std::uint16_t* from_ = nullptr;
  int layer_ = 0;
  int product_ = 0;
  unsigned unit_ = 0;
  int slice_ = 0;
  int depth_ = 0;
  int rows_ = 0;
};

/// Fills the ring; all of a warp call it.
__device__ inline void fill_ring(
    const TextStep& x,
    const StepPlan& plan,
    const Memory& memory) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const unsigned bytes = static_cast<unsigned>(plan.columns) * 2;
  Turn turn;
  Walk walk(x, plan, memory);
#pragma unroll 1
  while (!walk.ended()) {
    if (turn.phase > 0) {
      wait_for_phase(memory.empty + turn.slot, turn.phase - 1);
    }
    CopyBarrier* const full = memory.full + turn.slot;
    const int rows = walk.rows();
    if (lane < rows) {
      copy_in_bulk(
          memory.ring + turn.slot * plan.slot_pieces +
              lane * (plan.columns / 8),
          walk.row(lane),
          bytes,
          full);
    }
    meet_warp();
    if (lane == 0) {
      arrive_for(full, static_cast<unsigned>(rows) * bytes);
    }
    walk.advance();
    turn.advance(plan.slots);
  }
}

} // namespace cairn::kernels::cuda
