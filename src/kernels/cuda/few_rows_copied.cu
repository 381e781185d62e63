#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/bulk_copies.cuh"
#include "kernels/cuda/few_rows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_core.cuh"

#include <algorithm>
#include <cstddef>

// Products of few rows whose weights come to shared memory by bulk copies. A
// block has several times 8 outputs in a row, and there are as many blocks as
// the GPU has processors. One warp does nothing but start copies of the block's
// weights, into a ring of slots that is as large as half of a processor's
// memory: it begins while the kernel ahead still runs, with another block on
// the same processor. So memory is never idle between two products, and when
// the kernel ahead has ended, most of the weights are there.
//
// A slot has a slice of the columns of 8 outputs. The other warps share the
// columns of a slice, in steps as in few_rows.cu. Their sums meet in shared
// memory.

namespace cairn::kernels::cuda {
namespace {

constexpr int copied_threads = few_threads + warp_size;
constexpr int most_slots = 8;
constexpr int most_slice = 2048; ///< columns
/// Times 8 outputs, of both matrices together, whose sums are in shared memory
/// at a time: many, or few where memory is short.
constexpr int many_products = 8;
constexpr int few_products = 2;
constexpr std::size_t barrier_bytes = 2 * most_slots * 8;

/// How a block's shared memory is used.
struct Ring {
  int x_step; ///< pieces from one row of x to the next
  int slice;  ///< columns, a multiple of 32
  int slices;
  int slot_step; ///< pieces from one output to the next in a slot
  int slots;
  int products; ///< whose sums are there at a time
  int parts_at; ///< pieces from the beginning, as the next ones
  int ring_at;
};

/// The place of one result of a group of tiles.
struct Place {
  int row;
  int tile; ///< of the group
  int column;
};

__device__ inline Place place_of(int i, int tiles) {
  return {i / (8 * tiles), i / 8 % tiles, i % 8};
}

template <Element element, bool gated>
__global__ void __launch_bounds__(copied_threads)
    few_rows_copied_kernel(const FewRowsProduct x, const Ring ring) {
  constexpr int matrices = gated ? 2 : 1;
  const int group = ring.products / matrices; ///< tiles
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int rows = static_cast<int>(x.rows);
  const int depth = static_cast<int>(x.depth);
  const std::int64_t tiles = (x.outputs + 7) / 8;
  const auto first_tile = static_cast<int>(tiles * blockIdx.x / gridDim.x);
  const auto end_tile = static_cast<int>(tiles * (blockIdx.x + 1) / gridDim.x);
  uint4* const memory = shared_memory();
  auto* const full = reinterpret_cast<CopyBarrier*>(memory);
  CopyBarrier* const empty = full + most_slots;
  uint4* const own_x = memory + barrier_bytes / 16;
  auto* const parts = reinterpret_cast<float*>(memory + ring.parts_at);
  uint4* const slots = memory + ring.ring_at;
  const int slot_pieces = 8 * ring.slot_step;

  if (threadIdx.x == 0) {
    for (int i = 0; i < ring.slots; ++i) {
      make_barrier(full + i, 1);
      make_barrier(empty + i, few_warps);
    }
    publish_barriers();
  }
  __syncthreads();
  let_next_begin();

  if (warp == few_warps) {
    // Tile after tile, of each the matrices, of each the slices.
    const int chunks = (end_tile - first_tile) * matrices * ring.slices;
    for (int n = 0; n < chunks; ++n) {
      const int slot = n % ring.slots;
      const int use = n / ring.slots;
      if (use > 0) {
        wait_for_phase(empty + slot, static_cast<unsigned>(use - 1));
      }
      const int product = n / ring.slices;
      const int begin = n % ring.slices * ring.slice;
      const int length =
          depth - begin < ring.slice ? depth - begin : ring.slice;
      const std::int64_t first =
          static_cast<std::int64_t>(first_tile + product / matrices) * 8;
      const unsigned bytes = static_cast<unsigned>(length) * 2;
      if (lane < 8) {
        // Behind the last output is the last one again.
        const std::int64_t output =
            first + lane < x.outputs ? first + lane : x.outputs - 1;
        const void* const from =
            gated && product % matrices == 1 ? x.gate : x.weight;
        copy_in_bulk(
            slots + slot * slot_pieces + lane * ring.slot_step,
            static_cast<const std::uint16_t*>(from) + output * depth + begin,
            bytes,
            full + slot);
      }
      meet_warp();
      if (lane == 0) {
        arrive_for(full + slot, 8 * bytes);
      }
    }
    return;
  }

  const int g = lane / 4;
  const int t = lane % 4;
  if (x.norm.gamma != nullptr) {
    const int pieces = depth / piece;
    for (int i = static_cast<int>(threadIdx.x) * 8; i < pieces;
         i += few_threads * 8) {
      fetch_line(static_cast<const uint4*>(x.norm.gamma) + i);
      if (x.norm.beta != nullptr) {
        fetch_line(static_cast<const uint4*>(x.norm.beta) + i);
      }
    }
  }
  if (threadIdx.x == warp_size && x.bias != nullptr) {
    fetch_line(static_cast<const std::uint16_t*>(x.bias) + first_tile * 8);
  }
  wait_for_earlier();
  if (x.norm.gamma != nullptr) {
    normalize_few<element>(x, own_x, ring.x_step);
  } else {
    copy_few(x, own_x, ring.x_step);
  }
  meet_first(few_threads);

  int chunk = 0;
  for (int begin_tile = first_tile; begin_tile < end_tile;
       begin_tile += group) {
    const int count =
        end_tile - begin_tile < group ? end_tile - begin_tile : group;
    const int results = 8 * count * rows;
    // This thread's first result: what is added to it comes early.
    float bias = 0;
    float gate_bias = 0;
    float addend = 0;
    const auto read_added = [&](int i) {
      const Place own = place_of(i, count);
      const std::int64_t output =
          static_cast<std::int64_t>(begin_tile + own.tile) * 8 + own.column;
      if (i < results && output < x.outputs) {
        bias = number_at<element>(x.bias, output);
        gate_bias = number_at<element>(x.gate_bias, output);
        addend = number_at<element>(x.addend, own.row * x.outputs + output);
      }
    };
    read_added(static_cast<int>(threadIdx.x));

    for (int product = 0; product < count * matrices; ++product) {
      float sums[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          sums[i][k] = 0;
        }
      }
      for (int slice = 0; slice < ring.slices; ++slice, ++chunk) {
        const int slot = chunk % ring.slots;
        const int begin = slice * ring.slice;
        const int pieces =
            (depth - begin < ring.slice ? depth - begin : ring.slice) / piece;
        const int steps = (pieces + step_pieces - 1) / step_pieces;
        const uint4* const weight =
            slots + slot * slot_pieces + g * ring.slot_step + t;
        const uint4* const row = own_x + g * ring.x_step + begin / piece + t;
        wait_for_phase(full + slot, static_cast<unsigned>(chunk / ring.slots));
        const auto add = [&](int step, float(&low)[4], float(&high)[4]) {
          uint4 left{0, 0, 0, 0};
          uint4 right{0, 0, 0, 0};
          if (g < rows) {
            left = row[step * step_pieces];
          }
          if (step * step_pieces + t < pieces) {
            right = weight[step * step_pieces];
          }
          const std::uint32_t low_left[4] = {left.x, 0, left.y, 0};
          const std::uint32_t high_left[4] = {left.z, 0, left.w, 0};
          multiply_add<element>(low, low_left, right.x, right.y);
          multiply_add<element>(high, high_left, right.z, right.w);
        };
        int step = warp; // the same for all of the warp
        for (; step + few_warps < steps; step += 2 * few_warps) {
          add(step, sums[0], sums[1]);
          add(step + few_warps, sums[2], sums[3]);
        }
        if (step < steps) {
          add(step, sums[0], sums[1]);
        }
        meet_warp();
        if (lane == 0) {
          arrive(empty + slot);
        }
      }
      if (g < rows) {
        float* const part =
            parts + ((product * few_warps + warp) * rows + g) * 8 + 2 * t;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          part[k] = (sums[0][k] + sums[1][k]) + (sums[2][k] + sums[3][k]);
        }
      }
    }
    meet_first(few_threads);

    const auto sum_of = [&](int product, const Place& own) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < few_warps; ++i) {
        sum += parts
            [((product * few_warps + i) * rows + own.row) * 8 + own.column];
      }
      return sum;
    };
    for (int i = static_cast<int>(threadIdx.x); i < results; i += few_threads) {
      const Place own = place_of(i, count);
      const std::int64_t output =
          static_cast<std::int64_t>(begin_tile + own.tile) * 8 + own.column;
      if (output >= x.outputs) {
        continue;
      }
      if (i >= few_threads) {
        read_added(i);
      }
      Lane y[1];
      y[0].value = sum_of(own.tile * matrices, own) + bias;
      if constexpr (gated) {
        y[0].value *= activated(
            sum_of(own.tile * matrices + 1, own) + gate_bias,
            x.activation);
      } else {
        y[0].value = activated(y[0].value, x.activation);
      }
      y[0].value += addend;
      store(y, x.y, x.y_element, own.row * x.outputs + output);
    }
    if (begin_tile + group < end_tile) {
      meet_first(few_threads); // the sums' memory is used again
    }
  }
}

/// The use of shared memory; without slots if there is not enough.
Ring ring_of(const FewRowsProduct& x) {
  Ring ring{};
  ring.x_step = pieces_between(x.depth);
  ring.slices = static_cast<int>((x.depth + most_slice - 1) / most_slice);
  ring.slice =
      static_cast<int>((x.depth + ring.slices - 1) / ring.slices + 31) / 32 *
      32;
  ring.slices = static_cast<int>((x.depth + ring.slice - 1) / ring.slice);
  ring.slot_step = pieces_between(ring.slice);
  ring.parts_at = static_cast<int>(barrier_bytes / 16) +
      static_cast<int>(x.rows) * ring.x_step;
  const std::size_t most = most_shared_bytes() - shared_reserve;
  for (const std::size_t bytes : {std::min(most, x.copied_bytes), most}) {
    for (const int products : {many_products, few_products}) {
      ring.products = products;
      ring.ring_at =
          ring.parts_at + products * few_warps * static_cast<int>(x.rows) * 2;
      const auto pieces = static_cast<std::int64_t>(bytes / 16) - ring.ring_at;
      ring.slots = static_cast<int>(std::clamp<std::int64_t>(
          pieces / (8 * ring.slot_step),
          0,
          most_slots));
      if (ring.slots >= 2) {
        return ring;
      }
    }
  }
  return ring;
}

template <Element element, bool gated>
const char* start_copied(const FewRowsProduct& x, Start start, void* stream) {
  const Ring ring = ring_of(x);
  const auto kernel = few_rows_copied_kernel<element, gated>;
  const std::size_t bytes = 16 *
      static_cast<std::size_t>(ring.ring_at + ring.slots * 8 * ring.slot_step);
  cudaFuncSetAttribute(
      kernel,
      cudaFuncAttributeMaxDynamicSharedMemorySize,
      static_cast<int>(bytes));
  const std::int64_t tiles = (x.outputs + 7) / 8;
  const Grid grid{
      static_cast<unsigned>(std::min<std::int64_t>(tiles, processors())),
      copied_threads,
      bytes};
  return start == Start::early ? launch_early(kernel, grid, stream, x, ring)
                               : launch(kernel, grid, stream, x, ring);
}

} // namespace

bool takes_copies(const FewRowsProduct& x) {
  return ring_of(x).slots >= 2 &&
      is_for_hopper(few_rows_copied_kernel<Element::bf16, false>);
}

const char* multiply_by_copies(
    const FewRowsProduct& x,
    Start start,
    void* stream) {
  const auto with_gate = [&](auto element) {
    return x.gate != nullptr ? start_copied<element(), true>(x, start, stream)
                             : start_copied<element(), false>(x, start, stream);
  };
  return x.element == Element::bf16
      ? with_gate(std::integral_constant<Element, Element::bf16>())
      : with_gate(std::integral_constant<Element, Element::fp16>());
}

} // namespace cairn::kernels::cuda
