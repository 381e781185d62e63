#include "kernels/internal/cuda/grouped_product.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <cuda_bf16.h>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/short_gelu.cuh"
#include "kernels/cuda/tensor_copies.cuh"
#include "kernels/cuda/warpgroup_product.cuh"

// A block stays for many tiles of 128 x 128 results. One thread of its last
// warp group copies the factors of one tile after the other into a ring of
// stages. The first two warp groups take turns: while one writes its tile, the
// other multiplies the next. Two neighbouring blocks, a pair, compute tiles
// that are beside each other, and each copies half of the left factor for both.

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

/// Starts to read 16 bytes where it is written: the compiler would move a read
/// to where it is needed, and the thread would wait for it.
__device__ inline uint4 read_now(const void* memory) {
  uint4 word;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
               : "l"(memory)
               : "memory");
  return word;
}

/// Eight elements of bf16.
union Eight {
  uint4 word;
  std::uint32_t pairs[4];
};

/// Waits until nobody reads the worker's desk any more.
__device__ inline void clear_desk(const Worker& worker) {
  if (worker.thread == 0) {
    wait_for_reads<0>();
  }
  meet_group(1 + worker.number);
}

/// Bytes of a desk with 64 columns of bf16, swizzled as boxes are.
constexpr unsigned half_desk = desk_bytes / 2;

/// Lays the sums on the desk in bf16, and adds the bias first.
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
          desk + j / 8 * half_desk + (i * half + row) * 128 +
              (((j % 8 + right) ^ swizzle) << 4),
          pairs);
    }
  }
}

/// Starts to write a tile of bf16 from the desk.
__device__ inline void write_boxes(
    const CUtensorMap& result,
    unsigned desk,
    const BoxPlace& to,
    bool add,
    const Worker& worker) {
  publish_stores();
  meet_group(1 + worker.number);
  if (worker.thread == 0) {
    write_box(result, to, desk, add);
    write_box(
        result,
        {to.column + half, to.row, to.matrix},
        desk + half_desk,
        add);
    commit_writes();
  }
}

/// Takes GELU of sums.
template <Gelu kind>
__device__ Eight gelu_of(const Eight& sums) {
  Eight result;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    result.pairs[k] = packed(
        short_gelu<kind>(low(sums.pairs[k])),
        short_gelu<kind>(high(sums.pairs[k])));
  }
  return result;
}

/// Multiplies gradients by the slope of GELU, and adds them to `totals` as they
/// are stored.
template <Gelu kind>
__device__ Eight
gradient_of(const Eight& gradient, const Eight& sums, float (&totals)[8]) {
  Eight result;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::uint32_t both = packed(
        low(gradient.pairs[k]) * short_gelu_slope<kind>(low(sums.pairs[k])),
        high(gradient.pairs[k]) * short_gelu_slope<kind>(high(sums.pairs[k])));
    result.pairs[k] = both;
    totals[2 * k] += low(both);
    totals[2 * k + 1] += high(both);
  }
  return result;
}

/// Writes the tile's rows from the desk, in bf16, after the last operation. A
/// thread has 8 columns of every eighth row. `whole`: all 128 rows and columns
/// are wanted.
template <GroupFinish finish, Gelu kind, bool whole>
__device__ void write_rows(
    unsigned desk,
    const Place& place,
    const Work& work,
    std::int64_t first, ///< the result's row that is the tile's first one
    int rows,
    const Worker& worker) {
  constexpr int each = tile * tile / 8 / group_threads;
  constexpr int batch = 4; ///< rows at a time, to have enough to do
  const int word = worker.thread % 16;
  const int row = worker.thread / 16;
  const int column = place.column + word * 8;
  const unsigned from =
      desk + word / 8 * half_desk + row * 128 + (((word % 8) ^ row) << 4);
  const bool inside = column < work.columns;
  const std::int64_t to = (first + row) * work.columns + column;
  const std::int64_t step = std::int64_t{8} * work.columns;
  auto* const result = static_cast<__nv_bfloat16*>(work.result) + to;
  const auto wanted = [&](int i) {
    return whole || (inside && row + 8 * i < rows);
  };
  Eight inputs[batch];
  const auto read_inputs = [&](int begin) {
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      inputs[b].word = uint4{0, 0, 0, 0};
      if (wanted(begin + b)) {
        inputs[b].word = read_now(work.sums + to + (begin + b) * step);
      }
    }
  };
  if constexpr (finish == GroupFinish::gelu_gradient) {
    read_inputs(0);
  }
  meet_group(1 + worker.number);
  float totals[8] = {};
  // A loop, since code that runs once for a tile is not in the instructions'
  // cache: written out, it waits for itself most of the time.
#pragma unroll 1
  for (int begin = 0; begin < each; begin += batch) {
    Eight given[batch];
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      given[b].word = read_word(from + (begin + b) * 1024);
    }
    if constexpr (finish == GroupFinish::gelu) {
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        if (wanted(begin + b)) {
          *reinterpret_cast<uint4*>(work.sums + to + (begin + b) * step) =
              given[b].word;
        }
        given[b] = gelu_of<kind>(given[b]);
      }
    }
    if constexpr (finish == GroupFinish::gelu_gradient) {
      Eight sums[batch];
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        sums[b] = inputs[b];
      }
      if (begin + batch < each) {
        read_inputs(begin + batch);
      }
#pragma unroll
      for (int b = 0; b < batch; ++b) {
        if (!wanted(begin + b)) {
          given[b].word = uint4{0, 0, 0, 0};
        }
        given[b] = gradient_of<kind>(given[b], sums[b], totals);
      }
    }
#pragma unroll
    for (int b = 0; b < batch; ++b) {
      if (wanted(begin + b)) {
        *reinterpret_cast<uint4*>(result + (begin + b) * step) = given[b].word;
      }
    }
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

/// Writes the tile in fp32, a quarter after the other. One half of the desk is
/// filled while the other is read.
__device__ inline void write_floats(
    Sums& sums,
    const CUtensorMap& result,
    unsigned desk,
    const BoxPlace& to,
    bool add,
    const Worker& worker) {
  constexpr unsigned box_bytes = half * 128;
  constexpr int quarters = 4;
  const int row = worker.warp * 16 + worker.lane / 4;
  const int swizzle = row & 7; // that of row + 8 as well
#pragma unroll
  for (int quarter = 0; quarter < quarters; ++quarter) {
    const int i = quarter / 2;
    const int side = quarter % 2;
    const unsigned own_half = desk + side * half_desk;
    if (worker.thread == 0) {
      wait_for_reads<1>();
    }
    meet_group(1 + worker.number);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int word = 2 * (j % 4) + (worker.lane & 3) / 2;
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const float* const s = &sums[i][(side * 8 + j) * 4 + lower * 2];
        asm volatile(
            "st.shared.v2.f32 [%0], {%1, %2};"
            :
            : "r"(own_half + j / 4 * box_bytes + (row + lower * 8) * 128 +
                  ((word ^ swizzle) << 4) + (worker.lane & 1) * 8),
              "f"(s[0]),
              "f"(s[1])
            : "memory");
      }
    }
    publish_stores();
    meet_group(1 + worker.number);
    if (worker.thread == 0) {
#pragma unroll
      for (int box = 0; box < 2; ++box) {
        write_box(
            result,
            {to.column + side * half + box * fp32_box_columns,
             to.row + i * half,
             to.matrix},
            own_half + box * box_bytes,
            add);
      }
      commit_writes();
    }
  }
}

/// The last operation, and which GELU it is about.
struct Last {
  GroupFinish finish = GroupFinish::nothing;
  Gelu kind = Gelu::tanh;
};

/// A variant of the kernel, as constants of the compiler's. Results of type
/// float have no last operation.
template <Factors factors_, class Result_, GroupFinish finish, Gelu kind>
struct Form {
  using Result = Result_;
  static constexpr Factors factors = factors_;
  static constexpr Last last{finish, kind};
};

/// Brings the sums near that the tile's last operation reads.
__device__ inline void fetch_sums(
    const Place& place,
    const Work& work,
    int rows,
    const Worker& worker) {
  if (worker.thread < rows) {
    const __nv_bfloat16* const row = work.sums +
        static_cast<std::int64_t>(place.begin + place.row + worker.thread) *
            work.columns;
#pragma unroll
    for (int column = place.column; column < place.column + tile;
         column += half) {
      if (column < work.columns) {
        fetch_soon(row + column);
      }
    }
  }
}

/// Writes a tile of the products of rows.
template <class Form>
__device__ void finish_rows(
    Sums& sums,
    const CUtensorMap& result,
    unsigned desk,
    const Place& place,
    const Work& work,
    int rows,
    const Worker& worker) {
  constexpr GroupFinish finish = Form::last.finish;
  constexpr Gelu kind = Form::last.kind;
  constexpr bool plain =
      finish == GroupFinish::nothing || finish == GroupFinish::add_bias;
  const int first = place.begin + place.row;
  clear_desk(worker);
  lay_out<finish == GroupFinish::add_bias || finish == GroupFinish::gelu>(
      sums,
      desk,
      place,
      work,
      worker);
  if (plain && rows >= tile) {
    write_boxes(result, desk, {place.column, first, 0}, false, worker);
  } else if (!plain && rows >= tile && place.column + tile <= work.columns) {
    write_rows<finish, kind, true>(desk, place, work, first, rows, worker);
  } else {
    write_rows<finish, kind, false>(desk, place, work, first, rows, worker);
  }
}

template <class Form>
__device__ void work_on_tiles(
    const CUtensorMap& result,
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
    const int rows =
        (of_weights ? work.rows : place.end - place.begin) - place.row;
    if constexpr (Form::last.finish == GroupFinish::gelu_gradient) {
      fetch_sums(place, work, rows, worker);
    }
    if (count > 0) {
      wait_for_phase(&ring.turns[worker.number], (count - 1) / workers);
      meet_group(1 + worker.number); // all have seen it before it is passed on
    }
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
    if constexpr (!of_weights) {
      finish_rows<Form>(sums, result, desk, place, work, rows, worker);
    } else if constexpr (std::is_same_v<typename Form::Result, float>) {
      write_floats(
          sums,
          result,
          desk,
          {place.column, place.row, place.group},
          work.add,
          worker);
    } else {
      clear_desk(worker);
      lay_out<false>(sums, desk, place, work, worker);
      write_boxes(
          result,
          desk,
          {place.column, place.row, place.group},
          work.add,
          worker);
    }
  }
  if (worker.thread == 0) {
    wait_for_writes();
  }
}

template <class Form>
__global__ void __launch_bounds__(threads_of_block, 1) grouped_product_kernel(
    const __grid_constant__ CUtensorMap left,
    const __grid_constant__ CUtensorMap right,
    const __grid_constant__ CUtensorMap result,
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
    fetch_description(result);
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
        result,
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
    const BoxedTensor& left,
    const BoxedTensor& right,
    const BoxedTensor& result,
    const Work& work,
    std::int64_t tiles_at_most,
    void* stream) {
  // First of all, since it makes the device known to this thread.
  const auto kernel = grouped_product_kernel<Form>;
  if (const char* failure = failure_of(cudaFuncSetAttribute(
          kernel,
          cudaFuncAttributeMaxDynamicSharedMemorySize,
          static_cast<int>(bytes_of_block)))) {
    return failure;
  }
  CUtensorMap left_map;
  CUtensorMap right_map;
  CUtensorMap result_map;
  if (const char* failure = describe(left, left_map)) {
    return failure;
  }
  if (const char* failure = describe(right, right_map)) {
    return failure;
  }
  if (const char* failure = describe(result, result_map)) {
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
  return failure_of(cudaLaunchKernelEx(
      &config,
      kernel,
      left_map,
      right_map,
      result_map,
      work));
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
    const BoxedTensor& left,
    const BoxedTensor& right,
    const BoxedTensor& result,
    const Work& work,
    void* stream) {
  using R = __nv_bfloat16;
  const std::int64_t tiles =
      product_parts(product.groups) * across(product.columns, pair * tile);
  const auto started = [&](auto form) {
    return start<decltype(form)>(left, right, result, work, tiles, stream);
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
  const BoxedTensor left{
      product.left,
      1,
      product.groups.rows,
      product.depth,
      half};
  const BoxedTensor right{
      product.right,
      product.groups.groups,
      product.transposed ? product.columns : product.depth,
      product.transposed ? product.depth : product.columns,
      product.transposed ? tile : half};
  const BoxedTensor result{
      product.result,
      1,
      product.groups.rows,
      product.columns,
      tile};
  const Work work{
      .ends = product.groups.ends,
      .groups = static_cast<int>(product.groups.groups),
      .columns = static_cast<int>(product.columns),
      .depth = static_cast<int>(product.depth),
      .result = product.result,
      .bias = static_cast<const __nv_bfloat16*>(product.bias),
      .sums = static_cast<__nv_bfloat16*>(product.sums),
      .parts = product.parts};
  return product.transposed ? start_rows<Factors::rows_by_transposed>(
                                  product,
                                  left,
                                  right,
                                  result,
                                  work,
                                  stream)
                            : start_rows<Factors::rows_by_matrix>(
                                  product,
                                  left,
                                  right,
                                  result,
                                  work,
                                  stream);
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
  const BoxedTensor left{product.left, 1, groups.rows, product.out, half};
  const BoxedTensor right{product.right, 1, groups.rows, product.in, half};
  const bool fp32 = product.element == Element::fp32;
  const BoxedTensor result{
      product.result,
      groups.groups,
      product.out,
      product.in,
      fp32 ? half : tile,
      fp32};
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
  return fp32 ? start<Form<factors, float, plain, Gelu::tanh>>(
                    left,
                    right,
                    result,
                    work,
                    tiles,
                    stream)
              : start<Form<factors, __nv_bfloat16, plain, Gelu::tanh>>(
                    left,
                    right,
                    result,
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
