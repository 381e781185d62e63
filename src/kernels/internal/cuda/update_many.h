#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Updates of many stretches with one launch. See cuda.h for what pointers,
// streams and results are.

/// A row of the table that a launch reads. The numbers that differ from update
/// to update are not in it: Stretch::gradient_factor and NarrowStates::key are
/// those of ManyStretches.
struct ManyStretchesRow {
  Stretch stretch;
  std::int64_t first_block = 0; ///< number of its first block of the launch
  std::int32_t formula = 0;     ///< number of its formula
  std::int32_t fours = 0;       ///< 1: four elements can be moved at a time
};

/// Fills in `first_block` and `fours` of all rows, whose stretches are not
/// empty. Returns the number of blocks. For the host.
std::int64_t number_blocks(ManyStretchesRow* rows, std::int64_t count);

/// All that a launch needs. What it points at may change between two launches,
/// so that a recorded launch can be repeated with other numbers.
struct ManyStretches {
  const ManyStretchesRow* rows = nullptr;
  std::int64_t count = 0;             ///< rows
  std::int64_t blocks = 0;            ///< as number_blocks() returned it
  const void* formulas = nullptr;     ///< one after another
  const std::uint32_t* key = nullptr; ///< NarrowStates::key of all stretches
  /// Multiplies all gradients first; may be null.
  const float* gradient_factor = nullptr;
  bool any_narrow = false; ///< some stretches have NarrowStates
};

/// Applies formulas of one type to all stretches; gives the same bits as
/// update() of each.
template <class Formula>
[[nodiscard]] const char* update_many(const ManyStretches& many, void* stream);

} // namespace cairn::kernels::cuda
