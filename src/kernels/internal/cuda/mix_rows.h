#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Weighted sums of rows that are picked by their numbers, such as the answers
// of a token's experts. See cuda.h for what pointers, streams and results are.

/// A matrix x, [from, columns], and sums y of its rows, [count, columns]; both
/// without gaps. Each sum is of `picks` rows. `from` as the number of a row
/// stands for none.
struct MixedRows {
  std::int64_t count = 0;
  std::int64_t picks = 0;
  std::int64_t from = 0;
  std::int64_t columns = 0;
  Element element = Element::bf16;
};

/// Writes the sums of the rows that `rows`, [picks, count], names, each times
/// its weight in `weights`, [picks, count]; times 1 if that is null. Adds in
/// float and rounds once.
[[nodiscard]] const char* mix_rows(
    const MixedRows& shape,
    const void* x,
    const std::int64_t* rows,
    const float* weights,
    void* y,
    void* stream);

/// Writes the gradients of x and of the weights, given that of y. `comers` has
/// for each row of x the place in `rows` that names it, which is one at most;
/// picks * count stands for none. Weights whose place names no row keep what
/// `of_weights` has for them.
[[nodiscard]] const char* mix_rows_backward(
    const MixedRows& shape,
    const void* gradient,
    const void* x,
    const std::int64_t* comers,
    const float* weights,
    void* of_x,
    float* of_weights,
    void* stream);

} // namespace cairn::kernels::cuda
