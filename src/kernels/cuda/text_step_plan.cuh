#pragma once

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/bulk_copies.cuh"
#include "kernels/internal/cuda/text_step.h"

#include <cstdint>

// How a step of text_step.cu is divided over blocks and warps.

namespace cairn::kernels::cuda {

inline constexpr int step_warps = 15; ///< that compute, at most 16
inline constexpr int step_threads = step_warps * warp_size;
inline constexpr int unit_rows = 7;
inline constexpr int most_group =
    8; ///< units whose sums are in memory at a time
inline constexpr int most_slots = 32;
inline constexpr int most_parts = 16; ///< of a row's sum
/// Floats from one row's parts of sums to the next.
inline constexpr int sums_step = most_parts + 4;
inline constexpr int sums_floats = most_group * 8 * sums_step;
inline constexpr int most_splits = 5;
/// Values of a head in a message of attention.
inline constexpr int part_values = 5;
inline constexpr int most_head = 128;
inline constexpr std::int64_t barrier_bytes = 2 * most_slots * 8;
inline constexpr int least_slots = 2;
inline constexpr int enough_slots = 8;

/// Arrivals that free a slot: a multiple of every number of warps that may
/// share it.
inline constexpr unsigned slot_arrivals = 840;
inline constexpr int most_sharers = 8;
/// Stretches of 64 columns that a warp multiplies at a time.
inline constexpr int at_a_time = 3;

/// What a warp multiplies, of each group of units.
struct Role {
  std::int8_t unit;   ///< of the group; behind the group: the warp has nothing
  std::int8_t slice;  ///< the first one
  std::int8_t sharer; ///< number among the warps that share these slices
};

/// How the rows of a weight are divided.
struct Division {
  unsigned rows;
  unsigned each;   ///< units of a block
  unsigned units;  ///< of all blocks
  int slices;      ///< of the columns
  int messages_at; ///< of the units' messages
  unsigned group;  ///< units that a block computes at a time
  int warp_slices; ///< of a unit that a warp multiplies: one, or all of them
  int sharers;     ///< warps that share these
  int parts;       ///< of a row's sum: one of each warp that has the unit
  /// Rows of a unit, times 2^32 and rounded up.
  std::uint64_t rows_of_unit;
  Role roles[step_warps];

  /// The first row of a unit; behind the last unit, the number of rows.
  __device__ int begin(unsigned unit) const {
    return static_cast<int>(unit * rows_of_unit >> 32U);
  }
};

/// The products of a layer, and behind them the one to the scores.
enum ProductNumber { query_key_value, dense, up, down, head, product_count };

/// How a step is divided over blocks, and a block's memory.
struct StepPlan {
  Division products[product_count];
  int attended_at;   ///< attention's messages
  int messages;      ///< in all
  int head_messages; ///< of a head's part
  int splits;        ///< of a text's keys, at most
  int columns;       ///< of a slice, a multiple of 64
  int slots;
  unsigned slot_share; ///< one of the slots, times 2^32 and rounded up
  int slot_pieces;
  // Places in shared memory, in pieces of 16 bytes from the beginning.
  int layers_at;
  int products_at;
  int x_at;
  int hidden_at;
  int head_at; ///< query, key and value of one head
  int norm_sums_at;
  int sums_at;
  int ring_at;
};

/// A place in the ring.
struct Turn {
  int slot = 0;
  unsigned phase = 0;

  __device__ void advance(int slots) {
    if (++slot == slots) {
      slot = 0;
      ++phase;
    }
  }
};

struct Memory {
  CopyBarrier* full;
  CopyBarrier* empty;
  const TextStepLayer* layers;
  /// The plan's. A kernel's parameters come through a small cache, too.
  const Division* products;
  uint4* x; ///< what the next product multiplies
  std::uint16_t* hidden;
  std::uint16_t* head;
  float* norm_sums; ///< of warps
  float* sums;
  uint4* ring;
};

/// The plan for the current GPU: with the widest slices that leave enough
/// slots, or with the most slots. Without slots if there is not enough memory.
StepPlan plan_of(const TextStepShape& shape);

} // namespace cairn::kernels::cuda
