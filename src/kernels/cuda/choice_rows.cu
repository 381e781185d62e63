#include "kernels/internal/cuda/choice_rows.h"

#include "kernels/cuda/launch.cuh"

namespace cairn::kernels::cuda {
namespace {

/// Choices of a block, one for each thread.
constexpr int choices_at_once = 256;

std::int64_t blocks_of(const ChoiceRows& shape) {
  return (shape.choices + choices_at_once - 1) / choices_at_once;
}

/// Reads the experts of a block's choices; returns how many there are.
__device__ inline int read_block(
    const ChoiceRows& shape,
    const std::int64_t* chosen,
    int (&experts)[choices_at_once]) {
  const std::int64_t begin =
      static_cast<std::int64_t>(blockIdx.x) * choices_at_once;
  const std::int64_t left = shape.choices - begin;
  const int count =
      left < choices_at_once ? static_cast<int>(left) : choices_at_once;
  const int own = static_cast<int>(threadIdx.x);
  if (own < count) {
    experts[own] = static_cast<int>(chosen[begin + own]);
  }
  __syncthreads();
  return count;
}

/// Writes each block's number of choices of each expert, [experts, blocks], and
/// makes all rows empty.
__global__ void __launch_bounds__(choices_at_once) count_choices_kernel(
    ChoiceRows shape,
    const std::int64_t* chosen,
    ChoicePlaces places,
    std::int32_t* counts) {
  __shared__ int experts[choices_at_once];
  const int count = read_block(shape, chosen, experts);
  for (int e = static_cast<int>(threadIdx.x); e < shape.experts;
       e += choices_at_once) {
    int found = 0;
    for (int i = 0; i < count; ++i) {
      found += experts[i] == e ? 1 : 0;
    }
    counts[static_cast<std::int64_t>(e) * gridDim.x + blockIdx.x] = found;
  }
  for (std::int64_t row =
           static_cast<std::int64_t>(blockIdx.x) * choices_at_once +
           threadIdx.x;
       row < shape.rows;
       row += static_cast<std::int64_t>(gridDim.x) * choices_at_once) {
    places.comers[row] = shape.choices;
    places.sources[row] = shape.tokens;
  }
}

/// Replaces an expert's counts by the number of its choices in the blocks
/// before, and writes the number of all of them to `sums`. Has one block for
/// each expert, whose threads have some counts each.
__global__ void __launch_bounds__(choices_at_once) scan_counts_kernel(
    std::int64_t blocks,
    std::int32_t* counts,
    std::int32_t* sums) {
  __shared__ int parts[choices_at_once];
  const int own = static_cast<int>(threadIdx.x);
  const std::int64_t each = (blocks + choices_at_once - 1) / choices_at_once;
  const std::int64_t begin = own * each;
  const std::int64_t end = begin + each < blocks ? begin + each : blocks;
  std::int32_t* const of_blocks =
      counts + static_cast<std::int64_t>(blockIdx.x) * blocks;
  int sum = 0;
  for (std::int64_t b = begin; b < end; ++b) {
    sum += of_blocks[b];
  }
  parts[own] = sum;
  __syncthreads();
  for (int step = 1; step < choices_at_once; step *= 2) {
    const int before = own >= step ? parts[own - step] : 0;
    __syncthreads();
    parts[own] += before;
    __syncthreads();
  }
  int before = parts[own] - sum;
  for (std::int64_t b = begin; b < end; ++b) {
    const int count = of_blocks[b];
    of_blocks[b] = before;
    before += count;
  }
  if (own == choices_at_once - 1) {
    sums[blockIdx.x] = parts[own];
  }
}

/// Replaces the experts' sums by the row where each expert begins, and writes
/// where it ends. Has one block.
__global__ void __launch_bounds__(most_sorted_experts) begin_experts_kernel(
    ChoiceRows shape,
    std::int32_t* ends,
    std::int32_t* sums) {
  __shared__ int begins[most_sorted_experts];
  const int e = static_cast<int>(threadIdx.x);
  const bool own = e < shape.experts;
  const auto unit = static_cast<int>(shape.unit);
  int rows = 0;
  if (own) {
    const int count = sums[e] > 0 ? sums[e] : 1;
    rows = (count + unit - 1) / unit * unit;
  }
  begins[e] = rows;
  __syncthreads();
  for (int step = 1; step < static_cast<int>(most_sorted_experts); step *= 2) {
    const int before = e >= step ? begins[e - step] : 0;
    __syncthreads();
    begins[e] += before;
    __syncthreads();
  }
  if (own) {
    ends[e] = begins[e];
    sums[e] = begins[e] - rows;
  }
}

__global__ void __launch_bounds__(choices_at_once) place_choices_kernel(
    ChoiceRows shape,
    const std::int64_t* chosen,
    ChoicePlaces places,
    const std::int32_t* begins,
    const std::int32_t* begins_of_experts) {
  __shared__ int experts[choices_at_once];
  const int count = read_block(shape, chosen, experts);
  const int own = static_cast<int>(threadIdx.x);
  if (own >= count) {
    return;
  }
  const int expert = experts[own];
  std::int64_t row = begins_of_experts[expert] +
      begins[static_cast<std::int64_t>(expert) * gridDim.x + blockIdx.x];
  for (int i = 0; i < own; ++i) {
    row += experts[i] == expert ? 1 : 0;
  }
  const std::int64_t choice =
      static_cast<std::int64_t>(blockIdx.x) * choices_at_once + own;
  places.slots[choice] = row;
  places.comers[row] = choice;
  places.sources[row] = choice % shape.tokens;
}

} // namespace

std::int64_t sort_workspace(const ChoiceRows& shape) {
  return shape.experts * (blocks_of(shape) + 1);
}

const char* sort_choices(
    const ChoiceRows& shape,
    const std::int64_t* chosen,
    const ChoicePlaces& places,
    std::int32_t* workspace,
    void* stream) {
  if (shape.choices <= 0 || shape.experts > most_sorted_experts) {
    return shape.choices <= 0 ? nullptr : "too many experts";
  }
  const std::int64_t blocks = blocks_of(shape);
  const Grid grid{static_cast<unsigned>(blocks), choices_at_once};
  if (const char* failure = launch(
          count_choices_kernel,
          grid,
          stream,
          shape,
          chosen,
          places,
          workspace)) {
    return failure;
  }
  std::int32_t* const of_experts = workspace + shape.experts * blocks;
  if (const char* failure = launch(
          scan_counts_kernel,
          {static_cast<unsigned>(shape.experts), choices_at_once},
          stream,
          blocks,
          workspace,
          of_experts)) {
    return failure;
  }
  constexpr auto threads = static_cast<unsigned>(most_sorted_experts);
  if (const char* failure = launch(
          begin_experts_kernel,
          {1U, threads},
          stream,
          shape,
          places.ends,
          of_experts)) {
    return failure;
  }
  return launch(
      place_choices_kernel,
      grid,
      stream,
      shape,
      chosen,
      places,
      workspace,
      of_experts);
}

} // namespace cairn::kernels::cuda
