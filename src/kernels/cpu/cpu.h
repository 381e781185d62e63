#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

#include "kernels/cpu/table.h"

namespace cairn::kernels::cpu {

// On the calling thread, with the best instructions this machine has, and the
// same bits with any.

/// Applies a formula of formulas.h to every element in one pass. What it
/// leaves in place of the weight goes to `target`, or to the weights (and then
/// to their copy) where that is null.
template <class Formula>
void update(
    const Stretch& stretch,
    const Formula& formula,
    float* target = nullptr) {
  std::get<Update<Formula>>(table().updates)(stretch, formula, target);
}

/// Summed in fp64, so that no finite input overflows; inf or nan in the input
/// make it inf or nan.
inline double sum_of_squares(
    const void* values,
    Element element,
    std::int64_t count) {
  return table().sum_of_squares(values, element, count);
}

/// The position of the first inf or nan, or -1.
inline std::int64_t first_non_finite(
    const void* values,
    Element element,
    std::int64_t count) {
  return table().first_non_finite(values, element, count);
}

/// into = factor * from, or is increased by it unless `overwrite`.
inline void accumulate(
    float* into,
    const void* from,
    Element element,
    std::int64_t count,
    float factor = 1,
    bool overwrite = false) {
  table().accumulate(into, from, element, count, factor, overwrite);
}

/// Rounds to nearest even where `to` is narrower; nan stays nan.
inline void convert(
    const void* from,
    Element from_type,
    void* to,
    Element to_type,
    std::int64_t count) {
  table().convert(from, from_type, to, to_type, count);
}

} // namespace cairn::kernels::cpu
