#pragma once

#include "kernels/cuda/tensor_copies.cuh"
#include "kernels/cuda/warpgroup_product.cuh"

#include <cstdint>

#include <cuda_bf16.h>

// How grouped_product.cu divides products over blocks, and a block's memory.

namespace cairn::kernels::cuda::grouped {

inline constexpr int tile_rows = 128;
inline constexpr int tile_columns = 256;
inline constexpr int half = 64; ///< a worker's rows, a box's rows
inline constexpr int pair = 2;
inline constexpr int workers = 2; ///< warp groups that multiply
inline constexpr int group_threads = 128;
inline constexpr int threads_of_block = (workers + 1) * group_threads;

inline constexpr unsigned box_bytes = half * box_columns * 2;
inline constexpr int left_boxes = tile_rows / half;
inline constexpr int right_boxes = tile_columns / box_columns;
inline constexpr unsigned left_bytes = left_boxes * box_bytes;
inline constexpr unsigned stage_bytes = left_bytes + right_boxes * box_bytes;

/// How a block divides its memory between the stages of the ring and the desks
/// of its workers, where results lie before they are written. A worker's
/// results in bf16 are four boxes.
template <int stages_, int boxes_of_desk_>
struct Memory {
  static constexpr int stages = stages_;
  static constexpr int boxes_of_desk = boxes_of_desk_;
  static constexpr unsigned desk_bytes = boxes_of_desk * box_bytes;
  static constexpr unsigned desks_at = stages * stage_bytes;
  static constexpr unsigned barriers_at = desks_at + workers * desk_bytes;
  static constexpr unsigned bytes =
      barriers_at + (2 * stages + 1) * sizeof(CopyBarrier);
};

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
  int rows = 0;   ///< of the group's result, from the tile's first one on
  int column = 0; ///< the tile's first column
  int number = 0; ///< of the tile among those above each other
  int steps = 0;  ///< of 64 of the depth
  bool same_columns = false; ///< as the pair's other tile; else the same rows
};

/// Goes through the tiles of a block, in the same way in all of its threads.
/// The tiles of a pair are above each other as long as a group has rows for
/// both, since the right factor is the larger one to share. Those of the last
/// rows are beside each other: rows for three workers take less time then.
class Tiles {
 public:
  __device__ explicit Tiles(const Work& work)
      : work_(work),
        across_((work.columns + tile_columns - 1) / tile_columns),
        next_(static_cast<int>(blockIdx.x) / pair) {}

  /// Finds the next tile; false when there is none.
  __device__ bool next(Place& place) {
    while (next_ >= first_ + count_) {
      first_ += count_;
      number_ += down_;
      if (++group_ >= work_.groups) {
        return false;
      }
      begin_ = end_;
      end_ = max(work_.ends[group_], begin_);
      rows_ = work_.rows > 0 ? work_.rows : end_ - begin_;
      down_ = (rows_ + tile_rows - 1) / tile_rows;
      above_ = (rows_ + half - 1) / (pair * tile_rows);
      count_ = above_ * across_ + (down_ - above_ * pair) * beside_each_other();
    }
    const int own = static_cast<int>(blockIdx.x) % pair;
    const int here = next_ - first_;
    const int beside = here - above_ * across_;
    const int depth = work_.depth > 0 ? work_.depth : end_ - begin_;
    int row = 0;
    int column = 0;
    place.same_columns = beside < 0;
    if (place.same_columns) {
      row = here / across_ * pair + own;
      column = here % across_;
    } else {
      row = above_ * pair + beside / beside_each_other();
      column = beside % beside_each_other() * pair + own;
    }
    place.group = group_;
    place.begin = begin_;
    place.end = end_;
    place.row = row * tile_rows;
    place.rows = rows_ - place.row;
    place.column = column * tile_columns;
    place.number = number_ + row;
    place.steps = (depth + box_columns - 1) / box_columns;
    next_ += static_cast<int>(gridDim.x) / pair;
    return true;
  }

 private:
  [[nodiscard]] __device__ int beside_each_other() const {
    return (across_ + pair - 1) / pair;
  }

  const Work& work_;
  int across_;
  int next_;
  int group_ = -1;
  int first_ = 0; ///< the group's first two tiles
  int count_ = 0; ///< of the group's twos of tiles
  int above_ = 0; ///< twos above each other among those of the same columns
  int rows_ = 0;
  int down_ = 0;
  int number_ = 0;
  int begin_ = 0;
  int end_ = 0;
};

/// A stage of the ring, and how often the ring has gone round.
template <int stages>
struct RingPlace {
  int stage = 0;
  unsigned round = 0;

  __device__ void go_on() {
    if (++stage == stages) {
      stage = 0;
      ++round;
    }
  }
};

struct Ring {
  unsigned memory; ///< shared memory, as an address
  CopyBarrier* full;
  CopyBarrier* free;
  CopyBarrier* lead; ///< the first worker is ahead of the second
};

/// A worker's sums: 64 rows by 256 columns.
using Sums = float[128];

/// A worker's own numbers.
struct Worker {
  int number; ///< of its warp group
  int thread; ///< within it
  int warp;
  int lane;
};

} // namespace cairn::kernels::cuda::grouped
