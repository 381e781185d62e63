#pragma once

#include "kernels/cuda/grouped_tiles.cuh"
#include "kernels/cuda/short_gelu.cuh"
#include "kernels/internal/cuda/grouped_product.h"

#include <cstdint>
#include <type_traits>

// The end of a tile of grouped_product.cu: sums lie on a worker's desk in
// shared memory, go through the last operation and are written.

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

/// Waits until nobody reads the worker's desk any more.
__device__ inline void clear_desk(const Worker& worker) {
  if (worker.thread == 0) {
    wait_for_reads<0>();
  }
  meet_group(1 + worker.number);
}

/// Bytes of a desk with 64 columns of bf16, swizzled as boxes are.
inline constexpr unsigned half_desk = desk_bytes / 2;

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

} // namespace cairn::kernels::cuda::grouped
