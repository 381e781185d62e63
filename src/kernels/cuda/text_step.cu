#include "kernels/internal/cuda/text_step.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/text_step_attention.cuh"
#include "kernels/cuda/text_step_plan.cuh"
#include "kernels/cuda/text_step_ring.cuh"

#include <algorithm>
#include <cstddef>

// One kernel for a whole step, with one block for each processor. A block has
// some rows of every weight. One warp brings them to shared memory by bulk
// copies, into a ring of slots that takes nearly all of that memory. Weights do
// not depend on what is computed, so this warp waits for free slots only, and
// memory is busy while blocks wait for each other.
//
// The rows of a weight are divided into units of up to seven rows. The results
// of a unit are one message (see messages.cuh): seven values and a number.
// Every block reads the messages that it needs, and has the whole residual
// stream in its own memory. A layer has five exchanges: queries, keys and
// values; attention; and behind dense, up and down.
//
// A message is overwritten in the next layer. By then every block has read it:
// the writer has since received messages of all blocks that they sent later.

namespace cairn::kernels::cuda {
namespace {

/// The warps that compute.
template <Element element, int lanes>
class Worker : StepAttention<element, lanes> {
 public:
  using StepAttention<element, lanes>::StepAttention;
  using StepThread::memory_;
  using StepThread::x_;

  __device__ void work() {
    this->divide_keys();
    this->read_scales(memory_.layers[0].norms[0]);
    this->read_bias(memory_.products[0], memory_.layers[0].products[0].bias);
    this->embed();
    // One loop over all products, so that there is little code: instructions
    // come through a small cache.
    int layer = 0;
    int product = query_key_value;
#pragma unroll 1
    while (true) {
      const bool is_last = layer == x_.shape.layers;
      if (product == query_key_value || product == up) {
        if (product == query_key_value && !is_last) {
          this->ask_for_keys(layer);
        }
        const bool is_inner = product == up;
        this->normalize(
            memory_.layers[layer].norms[is_inner ? 1 : 0],
            is_last        ? nullptr
                : is_inner ? memory_.layers[layer + 1].norms
                           : memory_.layers[layer].norms + 1,
            is_inner         ? dense
                : layer == 0 ? product_count
                             : down);
        if (!is_inner && !is_last) {
          ++this->number_;
          this->layer_of_number_ = layer;
        }
      } else if (product == dense) {
        this->attend(layer);
        this->join_splits();
      } else {
        this->receive_inner();
      }
      const bool is_end = product == down;
      const int next = is_end ? query_key_value : product + 1;
      const int next_layer = is_end ? layer + 1 : layer;
      this->multiply(
          is_last ? static_cast<int>(head) : product,
          is_last ? nullptr : memory_.layers[next_layer].products[next].bias,
          next_layer == x_.shape.layers ? static_cast<int>(head) : next);
      if (is_last) {
        return;
      }
      product = next;
      layer = next_layer;
    }
  }
};

template <Element element, int lanes>
__global__ void __launch_bounds__(step_threads + warp_size) text_step_kernel(
    const __grid_constant__ TextStep x,
    const __grid_constant__ StepPlan plan) {
  uint4* const shared = shared_memory();
  auto* const full = reinterpret_cast<CopyBarrier*>(shared);
  const Memory memory{
      full,
      full + most_slots,
      reinterpret_cast<const TextStepLayer*>(shared + plan.layers_at),
      reinterpret_cast<const Division*>(shared + plan.products_at),
      shared + plan.x_at,
      reinterpret_cast<std::uint16_t*>(shared + plan.hidden_at),
      reinterpret_cast<std::uint16_t*>(shared + plan.head_at),
      reinterpret_cast<float*>(shared + plan.norm_sums_at),
      reinterpret_cast<float*>(shared + plan.sums_at),
      shared + plan.ring_at};
  if (threadIdx.x == 0) {
    for (int i = 0; i < plan.slots; ++i) {
      make_barrier(memory.full + i, 1);
      make_barrier(memory.empty + i, slot_arrivals);
    }
    publish_barriers();
  }
  constexpr int layer_pieces = sizeof(TextStepLayer) / sizeof(uint4);
  for (int i = static_cast<int>(threadIdx.x);
       i < (x.shape.layers + 1) * layer_pieces;
       i += static_cast<int>(blockDim.x)) {
    shared[plan.layers_at + i] = reinterpret_cast<const uint4*>(x.layers)[i];
  }
  if (threadIdx.x < product_count) {
    reinterpret_cast<Division*>(shared + plan.products_at)[threadIdx.x] =
        plan.products[threadIdx.x];
  }
  __syncthreads();
  if (threadIdx.x >= step_threads) {
    fill_ring(x, plan, memory);
  } else {
    Worker<element, lanes>(x, plan, memory).work();
  }
}

template <Element element, int lanes>
const char* start_step(
    const TextStep& step,
    const StepPlan& plan,
    void* stream) {
  const auto kernel = text_step_kernel<element, lanes>;
  const std::size_t bytes = 16 *
      (static_cast<std::size_t>(plan.ring_at) +
       static_cast<std::size_t>(plan.slots) *
           static_cast<std::size_t>(plan.slot_pieces));
  cudaFuncSetAttribute(
      kernel,
      cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(bytes));
  const Grid grid{
      static_cast<unsigned>(blocks_together()),
      step_threads + warp_size,
      bytes};
  return launch_together(kernel, grid, stream, step, plan);
}

} // namespace

bool takes(const TextStepShape& shape) {
  if (shape.element == Element::fp32 || shape.hidden % 64 != 0 ||
      shape.inner % 64 != 0 || shape.head_size % 8 != 0 ||
      shape.head_size > most_head ||
      shape.heads * shape.head_size != shape.hidden || shape.layers < 1 ||
      !is_for_hopper(text_step_kernel<Element::bf16, 8>)) {
    return false;
  }
  const StepPlan plan = plan_of(shape);
  const int together = std::min(plan.slots, step_warps);
  return together >= least_slots && plan.products[up].slices <= together &&
      plan.products[down].slices <= together;
}

std::size_t text_step_message_bytes(const TextStepShape& shape) {
  const StepPlan plan = plan_of(shape);
  return 16 * static_cast<std::size_t>(plan.messages);
}

const char* run_step(const TextStep& step, void* stream) {
  const StepPlan plan = plan_of(step.shape);
  const auto with_lanes = [&](auto element) {
    return step.shape.head_size <= 64
        ? start_step<element(), 8>(step, plan, stream)
        : start_step<element(), 16>(step, plan, stream);
  };
  return step.shape.element == Element::bf16
      ? with_lanes(std::integral_constant<Element, Element::bf16>())
      : with_lanes(std::integral_constant<Element, Element::fp16>());
}

} // namespace cairn::kernels::cuda
