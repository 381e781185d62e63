#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

#include "kernels/internal/cpu/narrow_tiles.h"
#include "kernels/internal/cpu/table.h"

namespace cairn::kernels::cpu {

// The kernels on the CPU. They run on the calling thread with the best
// instructions of this machine, and give the same bits with any of them.

/// Applies a formula of formulas.h to every element in one pass. The value that
/// the formula leaves in the weight goes to `target`; if `target` is null, it
/// goes to the weights and their copy. With narrow states `target` is null.
template <class Formula>
void update(
    const Stretch& stretch,
    const Formula& formula,
    float* target = nullptr) {
  const auto run = std::get<Update<Formula>>(table().updates);
  if (!stretch.narrow.any()) {
    run(stretch, formula, target);
    return;
  }
  for_each_wide_tile(stretch, [&](const Stretch& wide) {
    run(wide, formula, nullptr);
  });
}

/// Sum of squares, computed in fp64 so that no finite input overflows. An inf
/// or nan in the input makes the result inf or nan.
inline double sum_of_squares(
    const void* values,
    Element element,
    std::int64_t count) {
  return table().sum_of_squares(values, element, count);
}

/// The position of the first inf or nan; -1 if there is none.
inline std::int64_t first_non_finite(
    const void* values,
    Element element,
    std::int64_t count) {
  return table().first_non_finite(values, element, count);
}

/// Adds `from` to `into`, or replaces it.
inline void accumulate(
    float* into,
    const void* from,
    Element element,
    std::int64_t count,
    Accumulation how = {}) {
  table().accumulate(into, from, element, count, how);
}

/// Converts elements. Rounds to nearest even if `to` is narrower; nan stays
/// nan.
inline void convert(
    const void* from,
    Element from_type,
    void* to,
    Element to_type,
    std::int64_t count) {
  table().convert(from, from_type, to, to_type, count);
}

} // namespace cairn::kernels::cpu
