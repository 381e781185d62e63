#pragma once

#include "kernels/cuda/grouped_tiles.cuh"

#include <cstdint>

// The ring of grouped_product.cu, to which factors are copied, and the products
// of what it has.

namespace cairn::kernels::cuda::grouped {

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

} // namespace cairn::kernels::cuda::grouped
