#pragma once

#include "kernels/cuda/tensor_copies.cuh"
#include "kernels/cuda/warpgroup_product.cuh"

#include <cstdint>

#include <cuda_bf16.h>

// How grouped_product.cu divides products over blocks, and a block's memory.

namespace cairn::kernels::cuda::grouped {

inline constexpr int tile = 128;
inline constexpr int half = 64;
inline constexpr int stages = 5;
inline constexpr int pair = 2;
inline constexpr int workers = 2; ///< warp groups that multiply
inline constexpr int group_threads = 128;
inline constexpr int threads_of_block = (workers + 1) * group_threads;

inline constexpr unsigned half_bytes = half * box_columns * 2;
inline constexpr unsigned factor_bytes = 2 * half_bytes;
inline constexpr unsigned stage_bytes = 2 * factor_bytes;
inline constexpr unsigned desk_bytes = tile * tile * 2;
inline constexpr unsigned desks_at = stages * stage_bytes;
inline constexpr unsigned barriers_at = desks_at + workers * desk_bytes;
inline constexpr unsigned bytes_of_block =
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

using Sums = float[2][64];

/// A worker's own numbers.
struct Worker {
  int number; ///< of its warp group
  int thread; ///< within it
  int warp;
  int lane;
};

} // namespace cairn::kernels::cuda::grouped
