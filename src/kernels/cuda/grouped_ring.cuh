#pragma once

#include "kernels/cuda/grouped_tiles.cuh"

#include <cstdint>

// The ring of grouped_product.cu, to which factors are copied, and the products
// of what it has.

namespace cairn::kernels::cuda::grouped {

/// Columns or rows of the right factor that are copied at once.
template <Factors factors>
inline constexpr int right_copy =
    factors == Factors::rows_by_transposed ? tile_columns / pair : box_columns;

/// Copies the factors of all tiles of the block. One thread.
template <Factors factors, int stages>
__device__ void copy_factors(
    const CUtensorMap& left,
    const CUtensorMap& right,
    const Work& work,
    const Ring& ring) {
  constexpr int width = right_copy<factors>;
  constexpr int copies = tile_columns / width;
  constexpr unsigned copy_bytes = width * box_columns * 2;
  Tiles tiles(work);
  Place place;
  RingPlace<stages> at;
  const int own = static_cast<int>(blockIdx.x) % pair;
  while (tiles.next(place)) {
    for (int step = 0; step < place.steps; ++step) {
      wait_for_phase(&ring.free[at.stage], at.round + 1);
      CopyBarrier* const full = &ring.full[at.stage];
      const unsigned to = ring.memory + at.stage * stage_bytes;
      const int depth = step * box_columns;
      const auto left_box = [&](int i) {
        const int row = place.row + i * half;
        return factors == Factors::rows_by_rows
            ? BoxPlace{row, place.begin + depth}
            : BoxPlace{depth, place.begin + row};
      };
      const auto right_box = [&](int i) {
        const int column = place.column + i * width;
        switch (factors) {
          case Factors::rows_by_transposed:
            return BoxPlace{depth, column, place.group};
          case Factors::rows_by_matrix:
            return BoxPlace{column, depth, place.group};
          case Factors::rows_by_rows:
            break;
        }
        return BoxPlace{column, place.begin + depth};
      };
      arrive_for(full, stage_bytes);
      if (place.same_columns) {
#pragma unroll
        for (int i = 0; i < left_boxes; ++i) {
          copy_box(to + i * box_bytes, left, left_box(i), full);
        }
#pragma unroll
        for (int k = 0; k < copies / pair; ++k) {
          const int i = own * (copies / pair) + k;
          copy_box_to_pair(
              to + left_bytes + i * copy_bytes,
              right,
              right_box(i),
              full);
        }
      } else {
        copy_box_to_pair(to + own * box_bytes, left, left_box(own), full);
#pragma unroll
        for (int i = 0; i < copies; ++i) {
          copy_box(to + left_bytes + i * copy_bytes, right, right_box(i), full);
        }
      }
      at.go_on();
    }
  }
}

/// Clears the rows of the next groups in a stage whose depth goes down, as far
/// as the worker reads it. The other worker writes the same zeros to the right
/// factor.
__device__ inline void clear_from(
    int first,
    unsigned stage,
    const Worker& worker) {
  constexpr int words = box_columns * 2 / 16;
  const int count = (box_columns - first) * words;
  const auto clear = [&](int box) {
    const unsigned from = stage + box * box_bytes + first * words * 16;
#pragma unroll 1
    for (int i = worker.thread; i < count; i += group_threads) {
      asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};"
                   :
                   : "r"(from + i * 16), "r"(0)
                   : "memory");
    }
  };
  clear(worker.number);
#pragma unroll 1
  for (int box = 0; box < right_boxes; ++box) {
    clear(left_boxes + box);
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

/// Steps that the second worker begins behind the first. While one of them
/// writes its results, the other multiplies what lies between them, at twice
/// its speed: so they stay apart.
template <int stages>
inline constexpr int lead = stages - 2;

/// Goes on to the next stage. The first worker says when it is ahead.
template <int stages>
__device__ void go_on(
    const Ring& ring,
    RingPlace<stages>& at,
    const Worker& worker) {
  at.go_on();
  if (worker.number == 0 && at.round == 0 && at.stage == lead<stages> &&
      worker.thread == 0) {
    arrive(ring.lead);
  }
}

/// Lets the first worker get ahead, before the first stage.
__device__ inline void wait_for_lead(const Ring& ring, const Worker& worker) {
  if (worker.number == 1) {
    wait_for_phase(ring.lead, 0);
  }
}

/// The first worker's last word, if it had too few stages to get ahead.
template <int stages>
__device__ void give_up_lead(
    const Ring& ring,
    const RingPlace<stages>& at,
    const Worker& worker) {
  if (worker.number == 0 && at.round == 0 && at.stage < lead<stages> &&
      worker.thread == 0) {
    arrive(ring.lead);
  }
}

/// Multiplies the worker's rows of a tile. `meanwhile` is called once for each
/// step, while products are under way.
template <Factors factors, int stages, class Meanwhile>
__device__ void multiply_tile(
    Sums& sums,
    const Place& place,
    const Ring& ring,
    RingPlace<stages>& at,
    const Worker& worker,
    const Meanwhile& meanwhile) {
  constexpr bool left_down = factors == Factors::rows_by_rows;
  constexpr bool right_down = factors != Factors::rows_by_transposed;
  constexpr unsigned across = 32 >> 4;
  constexpr unsigned down = 2048 >> 4;
  int before = 0;
  for (int step = 0; step < place.steps; ++step) {
    wait_for_phase(&ring.full[at.stage], at.round);
    const unsigned memory = ring.memory + at.stage * stage_bytes;
    if constexpr (left_down) {
      const int rest = place.end - place.begin - step * box_columns;
      if (rest < box_columns) {
        clear_from(rest, memory, worker);
      }
    }
    const unsigned own_rows = memory + worker.number * box_bytes;
    const FactorPlace left =
        left_down ? depth_down(own_rows, box_bytes) : depth_across(own_rows);
    const FactorPlace right = right_down
        ? depth_down(memory + left_bytes, box_bytes)
        : depth_across(memory + left_bytes);
    begin_products();
#pragma unroll
    for (int k = 0; k < box_columns / 16; ++k) {
      start_product<left_down, right_down>(
          sums,
          left + k * (left_down ? down : across),
          right + k * (right_down ? down : across),
          step + k > 0);
    }
    commit_products();
    wait_for_products<1>();
    if (step > 0) {
      give_back(ring, before, worker);
    }
    before = at.stage;
    go_on(ring, at, worker);
    meanwhile();
  }
  wait_for_products<0>();
  if (place.steps > 0) {
    give_back(ring, before, worker);
  }
}

/// Passes the stages of a tile on of which the worker wants no rows.
template <int stages, class Meanwhile>
__device__ void pass_tile(
    const Place& place,
    const Ring& ring,
    RingPlace<stages>& at,
    const Worker& worker,
    const Meanwhile& meanwhile) {
  for (int step = 0; step < place.steps; ++step) {
    wait_for_phase(&ring.full[at.stage], at.round);
    give_back(ring, at.stage, worker);
    go_on(ring, at, worker);
    meanwhile();
  }
}

} // namespace cairn::kernels::cuda::grouped
