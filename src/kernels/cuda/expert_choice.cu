#include "kernels/internal/cuda/expert_choice.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/lane.cuh"
#include "kernels/cuda/launch.cuh"

#include <algorithm>
#include <limits>

namespace cairn::kernels::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int sums_of_block = 3; ///< for each expert

/// A team of `lanes` threads has a token, and each of them `each` experts: the
/// thread's number, and every `lanes` after it.
template <int lanes, int each>
struct Team {
  static constexpr int at_once = block_threads / lanes;
  int number = static_cast<int>(threadIdx.x) / lanes;
  int lane = static_cast<int>(threadIdx.x) % lanes;

  __device__ int expert(int i) const { return lane + i * lanes; }

  template <class Combine>
  static __device__ float over_lanes(float own, const Combine& combine) {
#pragma unroll
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
      own = combine(own, of_thread(own, mask));
    }
    return own;
  }
};

struct Higher {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// An expert and its score. One that is not to be chosen comes last.
struct Candidate {
  float score;
  int expert;
};

constexpr int nobody = 1 << 30;

__device__ inline bool comes_before(Candidate a, Candidate b) {
  return a.score > b.score || (a.score == b.score && a.expert < b.expert);
}

__device__ inline Candidate of_thread(Candidate own, int mask) {
  return {
      __shfl_xor_sync(0xffffffffU, own.score, mask),
      static_cast<int>(__shfl_xor_sync(
          0xffffffffU,
          static_cast<std::uint32_t>(own.expert),
          mask))};
}

/// The best of the team's experts that are not taken. A score that is not a
/// number counts as the least.
template <int lanes, int each>
__device__ Candidate best_of(
    const Team<lanes, each>& team,
    const float (&scores)[each],
    std::uint32_t taken,
    int experts) {
  const float least = -std::numeric_limits<float>::infinity();
  Candidate best{least, nobody};
#pragma unroll
  for (int i = 0; i < each; ++i) {
    if (team.expert(i) < experts && (taken >> i & 1U) == 0) {
      const float score = scores[i] > least ? scores[i] : least;
      const Candidate own{score, team.expert(i)};
      best = comes_before(own, best) ? own : best;
    }
  }
#pragma unroll
  for (int mask = lanes / 2; mask > 0; mask /= 2) {
    const Candidate other = of_thread(best, mask);
    best = comes_before(other, best) ? other : best;
  }
  return best;
}

/// Adds up a block's values of each expert, those of one team after the
/// other's, and writes them to `sums`. `words` is shared memory, one for each
/// value.
template <int lanes, int each, class Value>
__device__ void add_up_block(
    const Team<lanes, each>& team,
    const Value (&own)[each],
    int experts,
    std::uint32_t* words,
    Value* sums) {
  static_assert(sizeof(Value) == 4);
  auto* const values = reinterpret_cast<Value*>(words);
  constexpr int columns = lanes * each;
  __syncthreads(); // what was there has been read
#pragma unroll
  for (int i = 0; i < each; ++i) {
    values[team.number * columns + team.expert(i)] = own[i];
  }
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < experts; e += block_threads) {
    Value sum = 0;
    for (int t = 0; t < team.at_once; ++t) {
      sum += values[t * columns + e];
    }
    sums[e] = sum;
  }
}

/// Each block writes its sums for each expert to `parts`, [blocks, 3, experts]:
/// probabilities, choices, first choices.
template <int lanes, int each>
__global__ void __launch_bounds__(block_threads) choose_kernel(
    ExpertChoice shape,
    const float* scores,
    ChosenExperts chosen,
    std::uint32_t* parts) {
  __shared__ std::uint32_t words[block_threads * each];
  const Team<lanes, each> team;
  const int experts = static_cast<int>(shape.experts);
  float of_experts[each] = {};
  std::uint32_t counts[each] = {};
  std::uint32_t firsts[each] = {};
  for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * team.at_once;
       base < shape.tokens;
       base += static_cast<std::int64_t>(gridDim.x) * team.at_once) {
    const std::int64_t token = base + team.number;
    const bool is_there = token < shape.tokens;
    float own[each];
    float highest = -std::numeric_limits<float>::infinity();
#pragma unroll
    for (int i = 0; i < each; ++i) {
      own[i] = is_there && team.expert(i) < experts
          ? scores[token * experts + team.expert(i)]
          : -std::numeric_limits<float>::infinity();
      highest = fmaxf(highest, own[i]);
    }
    highest = team.over_lanes(highest, Higher());
    float sum = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      sum += is_there && team.expert(i) < experts ? expf(own[i] - highest) : 0;
    }
    sum = team.over_lanes(sum, Add());
    const float log_sum = highest + logf(sum);
    if (is_there) {
#pragma unroll
      for (int i = 0; i < each; ++i) {
        of_experts[i] += team.expert(i) < experts ? expf(own[i] - log_sum) : 0;
      }
      if (team.lane == 0) {
        chosen.log_sums[token] = log_sum;
      }
    }
    std::uint32_t taken = 0;
    for (std::int64_t pick = 0; pick < shape.picks; ++pick) {
      const Candidate best = best_of(team, own, taken, experts);
#pragma unroll
      for (int i = 0; i < each; ++i) {
        if (is_there && team.expert(i) == best.expert) {
          taken |= 1U << i;
          counts[i] += 1;
          firsts[i] += pick == 0 ? 1U : 0U;
          const std::int64_t place = pick * shape.tokens + token;
          chosen.experts[place] = best.expert;
          chosen.gates[place] = expf(own[i] - log_sum);
        }
      }
    }
  }
  std::uint32_t* const of_block =
      parts + static_cast<std::int64_t>(blockIdx.x) * sums_of_block * experts;
  add_up_block(
      team,
      of_experts,
      experts,
      words,
      reinterpret_cast<float*>(of_block));
  add_up_block(team, counts, experts, words, of_block + experts);
  add_up_block(team, firsts, experts, words, of_block + 2 * experts);
}

__device__ inline std::uint32_t sum_of_warp(std::uint32_t own) {
#pragma unroll
  for (int mask = warp_size / 2; mask > 0; mask /= 2) {
    own += __shfl_xor_sync(0xffffffffU, own, mask);
  }
  return own;
}

/// Adds up the sums of all blocks. A warp has an expert.
__global__ void __launch_bounds__(block_threads) add_up_choices_kernel(
    ExpertChoice shape,
    int blocks,
    const std::uint32_t* parts,
    ChosenExperts chosen) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const std::int64_t expert =
      static_cast<std::int64_t>(blockIdx.x) * (block_threads / warp_size) +
      warp;
  float mean = 0;
  std::uint32_t count = 0;
  std::uint32_t first = 0;
  if (expert < shape.experts) {
    for (int b = lane; b < blocks; b += warp_size) {
      const std::uint32_t* const of_block =
          parts + static_cast<std::int64_t>(b) * sums_of_block * shape.experts;
      mean += __uint_as_float(of_block[expert]);
      count += of_block[shape.experts + expert];
      first += of_block[2 * shape.experts + expert];
    }
  }
  mean = over_warp(mean, Add());
  count = sum_of_warp(count);
  first = sum_of_warp(first);
  if (expert < shape.experts && lane == 0) {
    chosen.means[expert] = mean / static_cast<float>(shape.tokens);
    chosen.counts[expert] = count;
    chosen.firsts[expert] = first;
  }
}

/// With dg for the gradient of a probability g, that of its score is
/// g (dg - the sum of all g dg).
template <int lanes, int each>
__global__ void __launch_bounds__(block_threads) choose_backward_kernel(
    ExpertChoice shape,
    const float* scores,
    const float* log_sums,
    const std::int64_t* chosen,
    const float* of_gates,
    const float* of_means,
    float* of_scores) {
  const Team<lanes, each> team;
  const int experts = static_cast<int>(shape.experts);
  const float share = 1.0F / static_cast<float>(shape.tokens);
  const std::int64_t token =
      static_cast<std::int64_t>(blockIdx.x) * team.at_once + team.number;
  const bool is_there = token < shape.tokens;
  const float log_sum = is_there ? log_sums[token] : 0;
  float gates[each];
  float of[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int expert = team.expert(i);
    const bool own = is_there && expert < experts;
    gates[i] = own ? expf(scores[token * experts + expert] - log_sum) : 0;
    of[i] = own && of_means != nullptr ? of_means[expert] * share : 0;
  }
  if (is_there && of_gates != nullptr) {
    for (std::int64_t pick = 0; pick < shape.picks; ++pick) {
      const std::int64_t place = pick * shape.tokens + token;
      const auto expert = static_cast<int>(chosen[place]);
      const float gradient = of_gates[place];
#pragma unroll
      for (int i = 0; i < each; ++i) {
        of[i] += team.expert(i) == expert ? gradient : 0;
      }
    }
  }
  float dot = 0;
#pragma unroll
  for (int i = 0; i < each; ++i) {
    dot += gates[i] * of[i];
  }
  dot = team.over_lanes(dot, Add());
#pragma unroll
  for (int i = 0; i < each; ++i) {
    if (is_there && team.expert(i) < experts) {
      of_scores[token * experts + team.expert(i)] = gates[i] * (of[i] - dot);
    }
  }
}

__global__ void __launch_bounds__(block_threads) split_floats_kernel(
    std::int64_t count,
    std::int64_t columns,
    const float* from,
    std::uint16_t* to) {
  const std::int64_t i =
      static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= count) {
    return;
  }
  const float value = from[i];
  const std::uint16_t large = to_bits(value, Element::bf16);
  const float rest = value - from_bits(large, Element::bf16);
  std::uint16_t* const place = to + i / columns * 2 * columns + i % columns;
  place[0] = large;
  place[columns] = to_bits(rest, Element::bf16);
}

/// Calls `work` with the numbers of lanes and of experts for each as constants.
template <class Work>
const char* with_team(std::int64_t experts, const Work& work) {
  if (experts <= 8) {
    return work(Team<8, 1>());
  }
  if (experts <= 32) {
    return work(Team<32, 1>());
  }
  if (experts <= 64) {
    return work(Team<32, 2>());
  }
  if (experts <= 128) {
    return work(Team<32, 4>());
  }
  if (experts <= 256) {
    return work(Team<32, 8>());
  }
  return work(Team<32, 32>());
}

bool fits(const ExpertChoice& shape) {
  return shape.experts >= 1 && shape.experts <= most_chosen_experts &&
      shape.picks >= 1 && shape.picks <= shape.experts;
}

constexpr const char* misfit =
    "a token chooses from 1 to 1024 experts, and no expert twice";

std::int64_t across(std::int64_t count, std::int64_t step) {
  return (count + step - 1) / step;
}

constexpr std::int64_t most_blocks = 256;

std::int64_t blocks_of(const ExpertChoice& shape) {
  const std::int64_t at_once =
      block_threads / (shape.experts <= 8 ? 8 : warp_size);
  return std::min(across(shape.tokens, at_once), most_blocks);
}

} // namespace

std::int64_t choice_workspace(const ExpertChoice& shape) {
  return blocks_of(shape) * sums_of_block * shape.experts;
}

const char* choose_experts(
    const ExpertChoice& shape,
    const float* scores,
    const ChosenExperts& chosen,
    void* workspace,
    void* stream) {
  if (shape.tokens <= 0 || !fits(shape)) {
    return fits(shape) ? nullptr : misfit;
  }
  const auto blocks = static_cast<int>(blocks_of(shape));
  auto* const parts = static_cast<std::uint32_t*>(workspace);
  const char* failure = with_team(
      shape.experts,
      [&]<int lanes, int each>(Team<lanes, each> /*team*/) {
        return launch(
            choose_kernel<lanes, each>,
            {static_cast<unsigned>(blocks), block_threads},
            stream,
            shape,
            scores,
            chosen,
            parts);
      });
  if (failure != nullptr) {
    return failure;
  }
  const auto of_experts =
      static_cast<unsigned>(across(shape.experts, block_threads / warp_size));
  return launch(
      add_up_choices_kernel,
      {of_experts, block_threads},
      stream,
      shape,
      blocks,
      parts,
      chosen);
}

const char* choose_experts_backward(
    const ExpertChoice& shape,
    const float* scores,
    const float* log_sums,
    const std::int64_t* experts,
    const float* of_gates,
    const float* of_means,
    float* of_scores,
    void* stream) {
  if (shape.tokens <= 0 || !fits(shape)) {
    return fits(shape) ? nullptr : misfit;
  }
  return with_team(
      shape.experts,
      [&]<int lanes, int each>(Team<lanes, each> /*team*/) {
        const auto blocks = static_cast<unsigned>(
            across(shape.tokens, Team<lanes, each>::at_once));
        return launch(
            choose_backward_kernel<lanes, each>,
            {blocks, block_threads},
            stream,
            shape,
            scores,
            log_sums,
            experts,
            of_gates,
            of_means,
            of_scores);
      });
}

const char* split_floats(
    std::int64_t rows,
    std::int64_t columns,
    const float* from,
    void* to,
    void* stream) {
  const std::int64_t count = rows * columns;
  if (count <= 0) {
    return nullptr;
  }
  return launch(
      split_floats_kernel,
      {static_cast<unsigned>(across(count, block_threads)), block_threads},
      stream,
      count,
      columns,
      from,
      static_cast<std::uint16_t*>(to));
}

} // namespace cairn::kernels::cuda
