#pragma once

#include "kernels/cuda/grouped_tiles.cuh"
#include "kernels/cuda/short_gelu.cuh"
#include "kernels/internal/cuda/grouped_product.h"

#include <cstdint>
#include <type_traits>

// The end of a tile of grouped_product.cu: a worker's sums lie on its desk in
// shared memory, go through the last operation and are written. A warp has 16
// rows of them from the first to the last.

namespace cairn::kernels::cuda::grouped {

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

/// The bias of a tile's columns, spread over a warp: of each 8 columns, thread
/// 4 g + t has 2 t and 2 t + 1 of the four times 8 from 32 g on.
struct Biases {
  std::uint32_t pairs[4];
};

/// Starts to read them.
__device__ inline Biases read_biases(
    const Place& place,
    const Work& work,
    const Worker& worker) {
  Biases biases{};
  if (work.bias != nullptr) {
    const __nv_bfloat16* const bias =
        work.bias + static_cast<std::int64_t>(place.group) * work.columns;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column =
          place.column + (worker.lane / 4 * 4 + i) * 8 + (worker.lane & 3) * 2;
      if (column < work.columns) {
        asm volatile("ld.global.b32 %0, [%1];"
                     : "=r"(biases.pairs[i])
                     : "l"(bias + column)
                     : "memory");
      }
    }
  }
  return biases;
}

/// Returns the two biases that the thread adds to its sums of 8 columns.
__device__ inline std::uint32_t bias_of(
    const Biases& biases,
    int eight,
    const Worker& worker) {
  return __shfl_sync(
      0xFFFFFFFFU,
      biases.pairs[eight % 4],
      (worker.lane & 3) + eight / 4 * 4);
}

/// Lays 64 columns of sums in a box, in bf16, and adds the bias first.
template <bool with_bias>
__device__ void lay_out(
    const Sums& sums,
    int box,
    unsigned to,
    const Biases& biases,
    const Worker& worker) {
  const int row = worker.warp * 16 + (worker.lane & 15);
  const int swizzle = row & 7;
  const int right = worker.lane >> 4;
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    float added[4] = {};
    if constexpr (with_bias) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::uint32_t both = bias_of(biases, box * 8 + j + i, worker);
        added[2 * i] = low(both);
        added[2 * i + 1] = high(both);
      }
    }
    const float* const s = &sums[(box * 8 + j) * 4];
    const std::uint32_t pairs[4] = {
        packed(s[0] + added[0], s[1] + added[1]),
        packed(s[2] + added[0], s[3] + added[1]),
        packed(s[4] + added[2], s[5] + added[3]),
        packed(s[6] + added[2], s[7] + added[3])};
    store_matrices(to + row * 128 + (((j + right) ^ swizzle) << 4), pairs);
  }
}

/// Lays 32 columns of sums in a box, in fp32.
__device__ inline void lay_out_floats(
    const Sums& sums,
    int box,
    unsigned to,
    const Worker& worker) {
  const int row = worker.warp * 16 + worker.lane / 4;
  const int swizzle = row & 7; // that of row + 8 as well
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int word = 2 * j + (worker.lane & 3) / 2;
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const float* const s = &sums[(box * 4 + j) * 4 + lower * 2];
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                   :
                   : "r"(to + (row + lower * 8) * 128 +
                         ((word ^ swizzle) << 4) + (worker.lane & 1) * 8),
                     "f"(s[0]),
                     "f"(s[1])
                   : "memory");
    }
  }
}

/// Writes the worker's 64 rows as boxes. One half of the desk is filled while
/// the other is read.
template <class Form>
__device__ void write_boxes(
    const Sums& sums,
    const Biases& biases,
    const CUtensorMap& result,
    unsigned desk,
    const BoxPlace& to,
    bool add,
    const Worker& worker) {
  constexpr bool fp32 = std::is_same_v<typename Form::Result, float>;
  constexpr int columns = fp32 ? fp32_box_columns : box_columns;
  constexpr int batch = Form::Memory::boxes_of_desk / 2;
#pragma unroll
  for (int first = 0; first < tile_columns / columns; first += batch) {
    const unsigned own_half = desk + first / batch % 2 * batch * box_bytes;
    if (worker.thread == 0) {
      wait_for_reads<1>();
    }
    meet_group(1 + worker.number);
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const unsigned box = own_half + i * box_bytes;
      if constexpr (fp32) {
        lay_out_floats(sums, first + i, box, worker);
      } else {
        lay_out<Form::has_bias>(sums, first + i, box, biases, worker);
      }
    }
    publish_stores();
    meet_group(1 + worker.number);
    if (worker.thread == 0) {
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        write_box(
            result,
            {to.column + (first + i) * columns, to.row, to.matrix},
            own_half + i * box_bytes,
            add);
      }
      commit_writes();
    }
  }
}

/// Writes those of the worker's rows that the group has, of which there are
/// fewer than 64. A thread has 8 columns of every second row of its warp, of
/// two boxes after the other.
template <class Form>
__device__ void write_some_rows(
    const Sums& sums,
    const Biases& biases,
    unsigned desk,
    const Place& place,
    const Work& work,
    int rows,
    const Worker& worker) {
  constexpr int boxes = 2;
  const int word = worker.lane % 16;
  const int row = worker.warp * 16 + worker.lane / 16;
  const unsigned from = desk + word / 8 * box_bytes;
  if (worker.thread == 0) {
    wait_for_reads<0>();
  }
  meet_group(1 + worker.number);
#pragma unroll
  for (int first = 0; first < right_boxes; first += boxes) {
#pragma unroll
    for (int i = 0; i < boxes; ++i) {
      const unsigned box = desk + i * box_bytes;
      lay_out<Form::has_bias>(sums, first + i, box, biases, worker);
    }
    __syncwarp();
    const int column = place.column + first * box_columns + word * 8;
    if (column < work.columns) {
      auto* const result = static_cast<__nv_bfloat16*>(work.result) + column +
          static_cast<std::int64_t>(
              place.begin + place.row + worker.number * half) *
              work.columns;
#pragma unroll
      for (int i = row; i < row + 16; i += 2) {
        if (i < rows) {
          *reinterpret_cast<uint4*>(
              result + static_cast<std::int64_t>(i) * work.columns) =
              read_word(from + i * 128 + (((word % 8) ^ (i & 7)) << 4));
        }
      }
    }
    __syncwarp();
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

/// Rows on a desk in bf16 that go through a last operation and are written
/// while the next tile's products are under way. A warp has 16 rows, and a
/// thread 8 columns of each.
template <GroupFinish finish, Gelu kind>
class LateRows {
 public:
  __device__ LateRows(const Work& work, unsigned desk, const Worker& worker)
      : work_(work), desk_(desk), worker_(worker) {}

  /// Begins with the rows of a tile that now lie on the desk.
  __device__ void begin(const Place& place, int rows) {
    next_ = 0;
    end_ = min(max(rows - worker_.warp * warp_rows, 0), warp_rows);
    column_ = place.column;
    part_ = place.number * workers + worker_.number;
    first_ = static_cast<std::int64_t>(
                 place.begin + place.row + worker_.number * half +
                 worker_.warp * warp_rows) *
            work_.columns +
        column_ + worker_.lane * 8;
    if constexpr (finish == GroupFinish::gelu_gradient) {
#pragma unroll
      for (float& total : totals_) {
        total = 0;
      }
      read_input();
    }
  }

  /// Spreads the rows that are left over so many calls of do_some().
  __device__ void spread(int calls) {
    each_ = calls > 0 ? (end_ - next_ + calls - 1) / calls : 0;
  }

  __device__ void do_some() {
#pragma unroll 1
    for (int i = 0; i < each_ && next_ < end_; ++i) {
      do_row();
    }
  }

  /// Does what is left. The warp can use its part of the desk again.
  __device__ void do_rest() {
#pragma unroll 1
    while (next_ < end_) {
      do_row();
    }
    __syncwarp();
    if constexpr (finish == GroupFinish::gelu_gradient) {
      if (part_ >= 0) {
        write_totals();
        part_ = -1;
      }
    }
  }

 private:
  static constexpr int warp_rows = 16;
  static constexpr unsigned warp_bytes = warp_rows * 128;

  [[nodiscard]] __device__ bool inside() const {
    return column_ + worker_.lane * 8 < work_.columns;
  }

  [[nodiscard]] __device__ std::int64_t place_of(int row) const {
    return first_ + static_cast<std::int64_t>(row) * work_.columns;
  }

  __device__ void read_input() {
    if (next_ < end_ && inside()) {
      input_.word = read_now(work_.sums + place_of(next_));
    }
  }

  __device__ void do_row() {
    const int row = next_++;
    if (inside()) {
      const std::int64_t to = place_of(row);
      Eight given;
      given.word = read_word(
          desk_ + worker_.lane / 8 * box_bytes + worker_.warp * warp_bytes +
          row * 128 + (((worker_.lane % 8) ^ (row & 7)) << 4));
      if constexpr (finish == GroupFinish::gelu) {
        *reinterpret_cast<uint4*>(work_.sums + to) = given.word;
        given = gelu_of<kind>(given);
      } else {
        const Eight sums = input_;
        read_input();
        given = gradient_of<kind>(given, sums, totals_);
      }
      *reinterpret_cast<uint4*>(
          static_cast<__nv_bfloat16*>(work_.result) + to) = given.word;
    }
  }

  /// Sums up what the four warps have of each column.
  __device__ void write_totals() {
    const unsigned own =
        desk_ + worker_.warp * warp_bytes + worker_.lane * 8 * sizeof(float);
#pragma unroll
    for (int k = 0; k < 8; k += 4) {
      asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};"
                   :
                   : "r"(own + k * static_cast<unsigned>(sizeof(float))),
                     "f"(totals_[k]),
                     "f"(totals_[k + 1]),
                     "f"(totals_[k + 2]),
                     "f"(totals_[k + 3])
                   : "memory");
    }
    meet_group(1 + worker_.number);
    float2 total{0, 0};
#pragma unroll
    for (int warp = 0; warp < 4; ++warp) {
      float2 part;
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                   : "=f"(part.x), "=f"(part.y)
                   : "r"(desk_ + warp * warp_bytes + worker_.thread * 8)
                   : "memory");
      total.x += part.x;
      total.y += part.y;
    }
    const int column = column_ + worker_.thread * 2;
    if (column < work_.columns) {
      *reinterpret_cast<float2*>(
          work_.parts + static_cast<std::int64_t>(part_) * work_.columns +
          column) = total;
    }
    meet_group(1 + worker_.number); // nobody reads the desk any more
  }

  const Work& work_;
  unsigned desk_;
  const Worker& worker_;
  int next_ = 0;
  int end_ = 0;
  int each_ = 0;
  int column_ = 0;
  int part_ = -1; ///< where totals go; negative: there are none
  std::int64_t first_ = 0;
  Eight input_{};
  float totals_[8] = {};
};

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
  static constexpr bool has_bias =
      finish == GroupFinish::add_bias || finish == GroupFinish::gelu;
  /// The last operation takes longer than the other worker has to multiply. So
  /// a tile lies whole on the desk during the next one.
  static constexpr bool is_late =
      finish == GroupFinish::gelu || finish == GroupFinish::gelu_gradient;
  using Memory =
      std::conditional_t<is_late, grouped::Memory<3, 4>, grouped::Memory<4, 2>>;
};

/// Brings the sums near that the tile's last operation reads.
__device__ inline void fetch_sums(
    const Place& place,
    const Work& work,
    int rows,
    const Worker& worker) {
  constexpr int line = 64; ///< elements that come at once
  const int own = worker.thread / 2;
  if (own < rows) {
    const __nv_bfloat16* const row = work.sums +
        static_cast<std::int64_t>(
            place.begin + place.row + worker.number * half + own) *
            work.columns;
    const int first = place.column + worker.thread % 2 * (tile_columns / 2);
#pragma unroll
    for (int column = first; column < first + tile_columns / 2;
         column += line) {
      if (column < work.columns) {
        fetch_soon(row + column);
      }
    }
  }
}

} // namespace cairn::kernels::cuda::grouped
