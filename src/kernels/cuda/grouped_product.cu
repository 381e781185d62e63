#include "kernels/internal/cuda/grouped_product.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/short_gelu.cuh"
#include "kernels/cuda/tensor_copies.cuh"
#include "kernels/cuda/warpgroup_product.cuh"

// A block stays for many tiles of 128 x 128 results. One thread of its last warp
// group copies the factors of one tile after the other into a ring of stages.
// The first two warp groups take turns: while one writes its tile, the other
// multiplies the next. Two neighbouring blocks, a pair, compute tiles that are
// beside each other, and each copies half of the left factor for both.

namespace cairn::kernels::cuda {
namespace {

constexpr int tile = 128;
constexpr int half = 64;
constexpr int stages = 5;
constexpr int pair = 2;
constexpr int workers = 2; ///< warp groups that multiply
constexpr int group_threads = 128;
constexpr int threads_of_block = (workers + 1) * group_threads;

constexpr unsigned half_bytes = half * box_columns * 2;
constexpr unsigned factor_bytes = 2 * half_bytes;
constexpr unsigned stage_bytes = 2 * factor_bytes;
constexpr unsigned desk_bytes = tile * tile * 2;
constexpr unsigned desks_at = stages * stage_bytes;
constexpr unsigned barriers_at = desks_at + workers * desk_bytes;
constexpr unsigned bytes_of_block =
    barriers_at + (2 * stages + workers) * sizeof(CopyBarrier);

enum class Factors {
  rows_by_transposed, ///< both have their depth across
  rows_by_matrix,     ///< the right one has it down
  rows_by_rows,       ///< both have it down, and it is a group's rows
};

/// A kernel's arguments beside the factors.
struct Work {
  const std::int32_t* ends = nullptr;
  int groups = 0;
  int rows = 0;    ///< of a group's result; 0: the group's rows
  int columns = 0; ///< of the result
  int depth = 0;   ///< 0: the group's rows
  void* result = nullptr;
  const __nv_bfloat16* bias = nullptr;
  __nv_bfloat16* sums = nullptr;
  float* parts = nullptr;
  bool add = false;
};

/// A tile of the results.
struct Place {
  int group = 0;
  int begin = 0;  ///< the group's first row
  int end = 0;    ///< behind the group's last row
  int row = 0;    ///< the tile's first row, counted from the group's
  int column = 0; ///< the tile's first column
  int part = 0;   ///< number of the tile among those above each other
  int steps = 0;  ///< of 64 of the depth
};

/// Goes through the tiles of a block, in the same way in all of its threads.
class Tiles {
 public:
  __device__ explicit Tiles(const Work& work)
      : work_(work),
        across_((work.columns + pair * tile - 1) / (pair * tile)),
        next_(static_cast<int>(blockIdx.x) / pair) {}

  /// Finds the next tile; false when there is none.
  __device__ bool next(Place& place) {
    while (next_ >= first_ + down_ * across_) {
      first_ += down_ * across_;
      part_ += down_;
      if (++group_ >= work_.groups) {
        return false;
      }
      begin_ = end_;
      end_ = max(work_.ends[group_], begin_);
      const int rows = work_.rows > 0 ? work_.rows : end_ - begin_;
      down_ = (rows + tile - 1) / tile;
    }
    const int here = next_ - first_;
    const int depth = work_.depth > 0 ? work_.depth : end_ - begin_;
    place.group = group_;
    place.begin = begin_;
    place.end = end_;
    place.row = here / across_ * tile;
    place.column =
        (here % across_ * pair + static_cast<int>(blockIdx.x) % pair) * tile;
    place.part = part_ + here / across_;
    place.steps = (depth + box_columns - 1) / box_columns;
    next_ += static_cast<int>(gridDim.x) / pair;
    return true;
  }

 private:
  const Work& work_;
  int across_;
  int next_;
  int group_ = -1;
  int first_ = 0; ///< the group's first tile
  int down_ = 0;
  int part_ = 0;
  int begin_ = 0;
  int end_ = 0;
};

/// A stage of the ring, and how often the ring has gone round.
struct RingPlace {
  int stage = 0;
  unsigned round = 0;

  __device__ void skip(int steps) {
    stage += steps;
    round += static_cast<unsigned>(stage / stages);
    stage %= stages;
  }
};

struct Ring {
  unsigned memory; ///< shared memory, as an address
  CopyBarrier* full;
  CopyBarrier* free;
  CopyBarrier* turns; ///< of each worker: the one before has seen its stages
};

/// Copies the factors of all tiles of the block. One thread.
template <Factors factors>
__device__ void copy_factors(
    const CUtensorMap& left,
    const CUtensorMap& right,
    const Work& work,
    const Ring& ring) {
  Tiles tiles(work);
  Place place;
  RingPlace at;
  const unsigned own = blockIdx.x % pair;
  while (tiles.next(place)) {
    for (int step = 0; step < place.steps; ++step) {
      wait_for_phase(&ring.free[at.stage], at.round + 1);
      CopyBarrier* const full = &ring.full[at.stage];
      const unsigned to = ring.memory + at.stage * stage_bytes;
      const int depth = step * box_columns;
      arrive_for(full, stage_bytes);
      BoxPlace from;
      if constexpr (factors == Factors::rows_by_rows) {
        from = {place.row + static_cast<int>(own) * half, place.begin + depth};
      } else {
        from = {depth, place.begin + place.row + static_cast<int>(own) * half};
      }
      copy_box_to_pair(to + own * half_bytes, left, from, full);
      if constexpr (factors == Factors::rows_by_transposed) {
        copy_box(
            to + factor_bytes,
            right,
            {depth, place.column, place.group},
            full);
      } else {
        const bool is_rows = factors == Factors::rows_by_rows;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          copy_box(
              to + factor_bytes + i * half_bytes,
              right,
              {place.column + i * half,
               is_rows ? place.begin + depth : depth,
               is_rows ? 0 : place.group},
              full);
        }
      }
      at.skip(1);
    }
  }
}

/// A worker's own numbers.
struct Worker {
  int number; ///< of its warp group
  int thread; ///< within it
  int warp;
  int lane;
};

/// Clears the rows of the next groups in a stage whose depth goes down.
__device__ inline void clear_from(
    int first,
    unsigned stage,
    const Worker& worker) {
  constexpr int words = box_columns * 2 / 16;
  constexpr int boxes = 4;
  const int count = (box_columns - first) * words;
  for (int box = 0; box < boxes; ++box) {
    const unsigned from = stage + box * half_bytes + first * words * 16;
    for (int i = worker.thread; i < count; i += group_threads) {
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};"
                   :
                   : "r"(from + i * 16), "r"(0)
                   : "memory");
    }
  }
  publish_stores();
  meet_group(1 + worker.number);
}

using Sums = float[2][64];

/// Says that the worker needs the stage no more, in both blocks.
__device__ inline void give_back(
    const Ring& ring,
    int stage,
    const Worker& worker) {
  if (worker.lane < pair) {
    arrive_in(&ring.free[stage], static_cast<unsigned>(worker.lane));
  }
}

/// Lets the other worker look for its stages. Before, it could take a stage of
/// two rounds ago for its own: a barrier tells even rounds from odd ones alone.
__device__ inline void pass_turn(const Ring& ring, const Worker& worker) {
  if (worker.thread == 0) {
    arrive(&ring.turns[1 - worker.number]);
  }
}

/// Multiplies a tile, of which `halves` times 64 rows are wanted.
template <Factors factors, int halves>
__device__ void multiply_tile(
    Sums& sums,
    const Place& place,
    const Ring& ring,
    RingPlace& at,
    const Worker& worker) {
  constexpr bool left_down = factors == Factors::rows_by_rows;
  constexpr bool right_down = factors != Factors::rows_by_transposed;
  constexpr unsigned across = 32 >> 4;
  constexpr unsigned down = 2048 >> 4;
  int before = 0;
  for (int step = 0; step < place.steps; ++step) {
    wait_for_phase(&ring.full[at.stage], at.round);
    if (step + 1 == place.steps) {
      pass_turn(ring, worker);
    }
    const unsigned memory = ring.memory + at.stage * stage_bytes;
    if constexpr (left_down) {
      const int rest = place.end - place.begin - step * box_columns;
      if (rest < box_columns) {
        clear_from(rest, memory, worker);
      }
    }
    const FactorPlace left =
        left_down ? depth_down(memory, half_bytes) : depth_across(memory);
    const FactorPlace right = right_down
        ? depth_down(memory + factor_bytes, half_bytes)
        : depth_across(memory + factor_bytes);
    begin_products();
#pragma unroll
    for (int k = 0; k < box_columns / 16; ++k) {
#pragma unroll
      for (int i = 0; i < halves; ++i) {
        start_product<left_down, right_down>(
            sums[i],
            left + k * (left_down ? down : across) + i * (half_bytes >> 4),
            right + k * (right_down ? down : across),
            step + k > 0);
      }
    }
    commit_products();
    wait_for_products<1>();
    if (step > 0) {
      give_back(ring, before, worker);
    }
    before = at.stage;
    at.skip(1);
  }
  wait_for_products<0>();
  if (place.steps > 0) {
    give_back(ring, before, worker);
  }
}

__device__ inline std::uint32_t packed(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

__device__ inline float low(std::uint32_t pair_of_values) {
  return __uint_as_float(pair_of_values << 16);
}

__device__ inline float high(std::uint32_t pair_of_values) {
  return __uint_as_float(pair_of_values & 0xFFFF0000U);
}

__device__ inline uint4 read_word(unsigned place) {
  uint4 word;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "r"(place)
               : "memory");
  return word;
}

/// Eight elements of bf16.
union Eight {
  uint4 word;
  std::uint32_t pairs[4];
};

/// Lays the sums on the desk in bf16, rows of 256 bytes whose 16-byte words are
/// swizzled by the row, and adds the bias first.
template <bool with_bias>
__device__ void lay_out(
    Sums& sums,
    unsigned desk,
    const Place& place,
    const Work& work,
    const Worker& worker) {
  const int row = worker.warp * 16 + (worker.lane & 15);
  const int swizzle = row & 7;
  const int right = worker.lane >> 4;
  const __nv_bfloat16* bias = nullptr;
  if constexpr (with_bias) {
    bias = work.bias == nullptr
        ? nullptr
        : work.bias + static_cast<std::int64_t>(place.group) * work.columns;
  }
#pragma unroll
  for (int j = 0; j < 16; j += 2) {
    float added[4] = {};
    if constexpr (with_bias) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int column = place.column + (j + i) * 8 + (worker.lane & 3) * 2;
        if (bias != nullptr && column < work.columns) {
          const std::uint32_t both =
              *reinterpret_cast<const std::uint32_t*>(bias + column);
          added[2 * i] = low(both);
          added[2 * i + 1] = high(both);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float* const s = &sums[i][4 * j];
      const std::uint32_t pairs[4] = {
          packed(s[0] + added[0], s[1] + added[1]),
          packed(s[2] + added[0], s[3] + added[1]),
          packed(s[4] + added[2], s[5] + added[3]),
          packed(s[6] + added[2], s[7] + added[3])};
      store_matrices(
          desk + (i * half + row) * 256 + (((j + right) ^ swizzle) << 4),
          pairs);
    }
  }
}

/// Writes the tile's rows from the desk to the result, in bf16, after the last
/// operation. A thread has 8 columns of every eighth row.
template <GroupFinish finish, Gelu kind>
__device__ void write_rows(
    unsigned desk,
    const Place& place,
    const Work& work,
    std::int64_t first, ///< the result's row that is the tile's first one
    int rows,
    const Worker& worker) {
  constexpr int each = tile * tile / 8 / group_threads;
  const int word = worker.thread % 16;
  const int row = worker.thread / 16;
  const int column = place.column + word * 8;
  const unsigned from = desk + row * 256 + ((word ^ row) << 4);
  const bool inside = column < work.columns;
  const std::int64_t to = (first + row) * work.columns + column;
  const std::int64_t step = std::int64_t{8} * work.columns;
  auto* const result = static_cast<__nv_bfloat16*>(work.result) + to;
  Eight inputs[each];
  if constexpr (finish == GroupFinish::gelu_gradient) {
#pragma unroll
    for (int i = 0; i < each; ++i) {
      inputs[i].word = inside && row + 8 * i < rows
          ? __ldg(reinterpret_cast<const uint4*>(work.sums + to + i * step))
          : uint4{0, 0, 0, 0};
    }
  }
  meet_group(1 + worker.number);
  float totals[8] = {};
#pragma unroll
  for (int i = 0; i < each; ++i) {
    if (!inside || row + 8 * i >= rows) {
      continue;
    }
    Eight given;
    given.word = read_word(from + i * 8 * 256);
    if constexpr (finish == GroupFinish::gelu) {
      *reinterpret_cast<uint4*>(work.sums + to + i * step) = given.word;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const std::uint32_t both = given.pairs[k];
        given.pairs[k] =
            packed(short_gelu<kind>(low(both)), short_gelu<kind>(high(both)));
      }
    } else if constexpr (finish == GroupFinish::gelu_gradient) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const std::uint32_t both = given.pairs[k];
        const std::uint32_t at = inputs[i].pairs[k];
        const std::uint32_t product = packed(
            low(both) * short_gelu_slope<kind>(low(at)),
            high(both) * short_gelu_slope<kind>(high(at)));
        given.pairs[k] = product;
        totals[2 * k] += low(product);
        totals[2 * k + 1] += high(product);
      }
    } else if (work.add) {
      Eight present;
      present.word = *reinterpret_cast<const uint4*>(result + i * step);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        given.pairs[k] = packed(
            low(given.pairs[k]) + low(present.pairs[k]),
            high(given.pairs[k]) + high(present.pairs[k]));
      }
    }
    *reinterpret_cast<uint4*>(result + i * step) = given.word;
  }
  if constexpr (finish == GroupFinish::gelu_gradient) {
    constexpr unsigned all = 0xFFFFFFFFU;
#pragma unroll
    for (float& total : totals) {
      total += __shfl_xor_sync(all, total, 16);
    }
    meet_group(1 + worker.number); // nobody reads the desk any more
    if (worker.lane < 16) {
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        asm volatile("st.shared.f32 [%0], %1;"
                     :
                     : "r"(desk + (worker.warp * tile + word * 8 + k) * 4),
                       "f"(totals[k])
                     : "memory");
      }
    }
    meet_group(1 + worker.number);
    float total = 0;
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) {
      float part;
      asm volatile("ld.shared.f32 %0, [%1];"
                   : "=f"(part)
                   : "r"(desk + (warp * tile + worker.thread) * 4)
                   : "memory");
      total += part;
    }
    if (place.column + worker.thread < work.columns) {
      work.parts
          [static_cast<std::int64_t>(place.part) * work.columns + place.column +
           worker.thread] = total;
    }
  }
}

/// Writes the tile in fp32, 64 rows after the other 64. A thread has 4 columns
/// of every fourth row.
__device__ inline void write_floats(
    Sums& sums,
    unsigned desk,
    const Place& place,
    const Work& work,
    std::int64_t first,
    int rows,
    const Worker& worker) {
  constexpr int each = half * tile / 4 / group_threads;
  const int word = worker.lane;
  const int column = place.column + word * 4;
  const bool inside = column < work.columns;
  const std::int64_t step = std::int64_t{4} * work.columns;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    meet_group(1 + worker.number); // the desk is free
#pragma unroll
    for (int j = 0; j < 16; ++j) {
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int row = worker.warp * 16 + worker.lane / 4 + lower * 8;
        const int place_of_word =
            (2 * j + (worker.lane & 3) / 2) ^ ((row & 7) << 1);
        asm volatile(
            "st.shared.v2.f32 [%0], {%1, %2};"
            :
            : "r"(desk + row * 512 + place_of_word * 16 + (worker.lane & 1) * 8),
              "f"(sums[i][4 * j + 2 * lower]),
              "f"(sums[i][4 * j + 2 * lower + 1])
            : "memory");
      }
    }
    const int top = i * half + worker.warp;
    auto* const result = static_cast<float*>(work.result) +
        (first + top) * work.columns + column;
    meet_group(1 + worker.number);
    constexpr int batch = 8; // reads under way
#pragma unroll
    for (int k = 0; k < each; k += batch) {
      float4 present[batch] = {};
      if (work.add) {
#pragma unroll
        for (int b = 0; b < batch; ++b) {
          if (inside && top + 4 * (k + b) < rows) {
            present[b] = *reinterpret_cast<const float4*>(
                result + (k + b) * step);
          }
        }
      }
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        const int row = worker.warp + 4 * (k + b);
        const uint4 given =
            read_word(desk + row * 512 + ((word ^ ((row & 7) << 1)) << 4));
        if (inside && top + 4 * (k + b) < rows) {
          *reinterpret_cast<float4*>(result + (k + b) * step) = float4{
              __uint_as_float(given.x) + present[b].x,
              __uint_as_float(given.y) + present[b].y,
              __uint_as_float(given.z) + present[b].z,
              __uint_as_float(given.w) + present[b].w};
        }
      }
    }
  }
}

/// The last operation, and which GELU it is about.
struct Last {
  GroupFinish finish = GroupFinish::nothing;
  Gelu kind = Gelu::tanh;
};

/// What a kernel is made for. Results of type float have no last operation.
template <Factors factors_, class Result_, GroupFinish finish, Gelu kind>
struct Form {
  using Result = Result_;
  static constexpr Factors factors = factors_;
  static constexpr Last last{finish, kind};
};

template <class Form>
__device__ void work_on_tiles(
    const Work& work,
    const Ring& ring,
    const Worker& worker) {
  constexpr bool of_weights = Form::factors == Factors::rows_by_rows;
  const unsigned desk = ring.memory + desks_at + worker.number * desk_bytes;
  Tiles tiles(work);
  Place place;
  RingPlace at;
  for (unsigned count = 0; tiles.next(place); ++count) {
    if (count % workers != worker.number) {
      at.skip(place.steps);
      continue;
    }
    if (count > 0) {
      wait_for_phase(&ring.turns[worker.number], (count - 1) / workers);
      meet_group(1 + worker.number); // all have seen it before it is passed on
    }
    const int rows =
        (of_weights ? work.rows : place.end - place.begin) - place.row;
    Sums sums;
    if (of_weights && place.steps == 0) {
      pass_turn(ring, worker);
      if (work.add) {
        continue;
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (float& sum : sums[i]) {
          sum = 0;
        }
      }
    } else if (rows > half) {
      multiply_tile<Form::factors, 2>(sums, place, ring, at, worker);
    } else {
      multiply_tile<Form::factors, 1>(sums, place, ring, at, worker);
    }
    const std::int64_t first =
        (of_weights ? static_cast<std::int64_t>(place.group) * work.rows
                    : place.begin) +
        place.row;
    if constexpr (std::is_same_v<typename Form::Result, float>) {
      static_assert(Form::last.finish == GroupFinish::nothing);
      write_floats(sums, desk, place, work, first, rows, worker);
    } else {
      meet_group(1 + worker.number); // nobody reads the desk any more
      lay_out<
          Form::last.finish == GroupFinish::add_bias ||
          Form::last.finish == GroupFinish::gelu>(sums, desk, place, work, worker);
      write_rows<Form::last.finish, Form::last.kind>(
          desk,
          place,
          work,
          first,
          rows,
          worker);
    }
  }
}

template <class Form>
__global__ void __launch_bounds__(threads_of_block, 1) grouped_product_kernel(
    const __grid_constant__ CUtensorMap left,
    const __grid_constant__ CUtensorMap right,
    const Work work) {
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __trap(); // Hopper has code of its own, and no other GPU is asked
#endif
  extern __shared__ __align__(1024) unsigned char block_memory[];
  auto* const barriers =
      reinterpret_cast<CopyBarrier*>(block_memory + barriers_at);
  const Ring ring{
      shared_place(block_memory),
      barriers,
      barriers + stages,
      barriers + 2 * stages};
  const int number = static_cast<int>(threadIdx.x) / group_threads;
  if (threadIdx.x == 0) {
    fetch_description(left);
    fetch_description(right);
    for (int i = 0; i < stages; ++i) {
      make_barrier(&ring.full[i], 1);
      make_barrier(&ring.free[i], pair * 4); // one thread of each warp
    }
    for (int i = 0; i < workers; ++i) {
      make_barrier(&ring.turns[i], 1);
    }
    publish_barriers();
  }
  meet_pair();
  if (number == workers) {
    need_fewer_registers<40>();
    if (threadIdx.x == workers * group_threads) {
      copy_factors<Form::factors>(left, right, work, ring);
    }
  } else {
    need_more_registers<232>();
    const int thread = static_cast<int>(threadIdx.x) % group_threads;
    work_on_tiles<Form>(
        work,
        ring,
        {number, thread, thread / 32, thread % 32});
  }
  meet_pair(); // the other block still reads, writes and arrives here
}

const char* failure_of(cudaError_t error) {
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

template <class Form>
const char* start(
    const TensorOf16Bits& left,
    const TensorOf16Bits& right,
    const Work& work,
    std::int64_t tiles_at_most,
    void* stream) {
  CUtensorMap left_map;
  CUtensorMap right_map;
  if (const char* failure = describe(left, left_map)) {
    return failure;
  }
  if (const char* failure = describe(right, right_map)) {
    return failure;
  }
  const auto kernel = grouped_product_kernel<Form>;
  if (const char* failure = failure_of(cudaFuncSetAttribute(
          kernel,
          cudaFuncAttributeMaxDynamicSharedMemorySize,
          static_cast<int>(bytes_of_block)))) {
    return failure;
  }
  const std::int64_t pairs = std::clamp<std::int64_t>(
      tiles_at_most,
      1,
      std::max(processors() / pair, 1));
  cudaLaunchAttribute in_pairs{};
  in_pairs.id = cudaLaunchAttributeClusterDimension;
  in_pairs.val.clusterDim.x = pair;
  in_pairs.val.clusterDim.y = 1;
  in_pairs.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(pairs * pair));
  config.blockDim = dim3(threads_of_block);
  config.dynamicSmemBytes = bytes_of_block;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = &in_pairs;
  config.numAttrs = 1;
  return failure_of(
      cudaLaunchKernelEx(&config, kernel, left_map, right_map, work));
}

bool at_sixteen(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

bool fits(const ProductGroups& groups) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  return groups.rows >= 0 && groups.rows <= most && groups.groups > 0 &&
      groups.groups <= 65536 && groups.ends != nullptr;
}

bool fits(std::int64_t columns) {
  constexpr std::int64_t most = std::int64_t{1} << 24;
  return columns > 0 && columns <= most && columns % 8 == 0;
}

std::int64_t across(std::int64_t columns, std::int64_t step) {
  return (columns + step - 1) / step;
}

template <Factors factors>
const char* start_rows(
    const RowsProduct& product,
    const TensorOf16Bits& left,
    const TensorOf16Bits& right,
    const Work& work,
    void* stream) {
  using R = __nv_bfloat16;
  const std::int64_t tiles =
      product_parts(product.groups) * across(product.columns, pair * tile);
  const auto started = [&](auto form) {
    return start<decltype(form)>(left, right, work, tiles, stream);
  };
  const bool exact = product.kind == Gelu::exact;
  if constexpr (factors == Factors::rows_by_transposed) {
    constexpr auto gelu = GroupFinish::gelu;
    switch (product.finish) {
      case GroupFinish::nothing:
      case GroupFinish::add_bias:
        return started(Form<factors, R, GroupFinish::add_bias, Gelu::tanh>());
      case gelu:
        return exact ? started(Form<factors, R, gelu, Gelu::exact>())
                     : started(Form<factors, R, gelu, Gelu::tanh>());
      case GroupFinish::gelu_gradient:
        break;
    }
  } else {
    constexpr auto slope = GroupFinish::gelu_gradient;
    switch (product.finish) {
      case GroupFinish::nothing:
        return started(Form<factors, R, GroupFinish::nothing, Gelu::tanh>());
      case slope:
        return exact ? started(Form<factors, R, slope, Gelu::exact>())
                     : started(Form<factors, R, slope, Gelu::tanh>());
      case GroupFinish::add_bias:
      case GroupFinish::gelu:
        break;
    }
  }
  return "grouped products have no such last operation";
}

constexpr int sum_threads = 128;

/// Sums the parts of one group, 128 columns of them.
template <class Result>
__global__ void __launch_bounds__(sum_threads) sum_parts_kernel(
    const std::int32_t* ends,
    std::int64_t columns,
    const float* parts,
    Result* sums) {
  const auto group = static_cast<int>(blockIdx.y);
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * sum_threads + threadIdx.x;
  if (column >= columns) {
    return;
  }
  std::int64_t first = 0;
  std::int64_t count = 0;
  int begin = 0;
  for (int i = 0; i <= group; ++i) {
    const int end = max(ends[i], begin);
    first += count;
    count = (end - begin + tile - 1) / tile;
    begin = end;
  }
  float sum = 0;
#pragma unroll 8
  for (std::int64_t i = first; i < first + count; ++i) {
    sum += parts[i * columns + column];
  }
  sums[group * columns + column] = Result(sum);
}

} // namespace

bool has_grouped_products() {
  int device = 0;
  int major = 0;
  int minor = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(
          &major,
          cudaDevAttrComputeCapabilityMajor,
          device) == cudaSuccess &&
      cudaDeviceGetAttribute(
          &minor,
          cudaDevAttrComputeCapabilityMinor,
          device) == cudaSuccess &&
      major == 9 && minor == 0;
}

bool takes(const RowsProduct& product) {
  const bool is_gradient = product.finish == GroupFinish::gelu_gradient;
  const bool has_sums = product.finish == GroupFinish::gelu || is_gradient;
  const bool has_bias = product.finish == GroupFinish::gelu ||
      product.finish == GroupFinish::add_bias;
  return fits(product.groups) && fits(product.columns) && fits(product.depth) &&
      at_sixteen(product.left) && at_sixteen(product.right) &&
      at_sixteen(product.result) && at_sixteen(product.bias) &&
      at_sixteen(product.sums) && has_sums == (product.sums != nullptr) &&
      is_gradient == (product.parts != nullptr) &&
      (has_bias || product.bias == nullptr) &&
      (product.transposed ? !is_gradient : !has_bias);
}

bool takes(const WeightsProduct& product) {
  return fits(product.groups) && fits(product.out) && fits(product.in) &&
      at_sixteen(product.left) && at_sixteen(product.right) &&
      at_sixteen(product.result) &&
      (product.element == Element::bf16 || product.element == Element::fp32);
}

const char* multiply(const RowsProduct& product, void* stream) {
  if (product.groups.rows == 0) {
    return nullptr;
  }
  const TensorOf16Bits left{
      product.left,
      1,
      product.groups.rows,
      product.depth,
      half};
  const TensorOf16Bits right{
      product.right,
      product.groups.groups,
      product.transposed ? product.columns : product.depth,
      product.transposed ? product.depth : product.columns,
      product.transposed ? tile : half};
  const Work work{
      .ends = product.groups.ends,
      .groups = static_cast<int>(product.groups.groups),
      .columns = static_cast<int>(product.columns),
      .depth = static_cast<int>(product.depth),
      .result = product.result,
      .bias = static_cast<const __nv_bfloat16*>(product.bias),
      .sums = static_cast<__nv_bfloat16*>(product.sums),
      .parts = product.parts};
  return product.transposed
      ? start_rows<Factors::rows_by_transposed>(
            product,
            left,
            right,
            work,
            stream)
      : start_rows<Factors::rows_by_matrix>(product, left, right, work, stream);
}

const char* multiply(const WeightsProduct& product, void* stream) {
  const ProductGroups& groups = product.groups;
  if (groups.rows == 0) {
    const std::size_t bytes = product.element == Element::fp32 ? 4 : 2;
    return product.add ? nullptr
                       : failure_of(cudaMemsetAsync(
                             product.result,
                             0,
                             static_cast<std::size_t>(
                                 groups.groups * product.out * product.in) *
                                 bytes,
                             static_cast<cudaStream_t>(stream)));
  }
  const TensorOf16Bits left{product.left, 1, groups.rows, product.out, half};
  const TensorOf16Bits right{product.right, 1, groups.rows, product.in, half};
  const Work work{
      .ends = groups.ends,
      .groups = static_cast<int>(groups.groups),
      .rows = static_cast<int>(product.out),
      .columns = static_cast<int>(product.in),
      .result = product.result,
      .add = product.add};
  const std::int64_t tiles = groups.groups * across(product.out, tile) *
      across(product.in, pair * tile);
  constexpr auto factors = Factors::rows_by_rows;
  constexpr auto plain = GroupFinish::nothing;
  return product.element == Element::fp32
      ? start<Form<factors, float, plain, Gelu::tanh>>(
            left,
            right,
            work,
            tiles,
            stream)
      : start<Form<factors, __nv_bfloat16, plain, Gelu::tanh>>(
            left,
            right,
            work,
            tiles,
            stream);
}

std::int64_t product_parts(const ProductGroups& groups) {
  return groups.rows / tile + groups.groups;
}

const char* sum_product_parts(
    const ProductGroups& groups,
    std::int64_t columns,
    const float* parts,
    void* sums,
    Element element,
    void* stream) {
  const Grid grid{
      dim3(
          static_cast<unsigned>(across(columns, sum_threads)),
          static_cast<unsigned>(groups.groups)),
      dim3(sum_threads)};
  if (element == Element::fp32) {
    return launch(
        sum_parts_kernel<float>,
        grid,
        stream,
        groups.ends,
        columns,
        parts,
        static_cast<float*>(sums));
  }
  if (element == Element::bf16) {
    return launch(
        sum_parts_kernel<__nv_bfloat16>,
        grid,
        stream,
        groups.ends,
        columns,
        parts,
        static_cast<__nv_bfloat16*>(sums));
  }
  return "sums of parts are fp32 or bf16";
}

} // namespace cairn::kernels::cuda
