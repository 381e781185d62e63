#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// The sum of squares of many stretches, with two launches however many there
// are. See cuda.h for what pointers, streams and results are.

/// A row of the table that the first launch reads.
struct SquaredRow {
  const void* values = nullptr;
  Element type = Element::fp32;
  std::int64_t count = 0;
  std::int64_t first_block = 0; ///< number of its first block of elements
  std::int32_t vectors = 0;     ///< 1: 16 bytes can be read at a time
};

/// Fills in `first_block` and `vectors` of all rows, which are not empty.
/// Returns the number of blocks of elements. For the host.
std::int64_t number_blocks(SquaredRow* rows, std::int64_t count);

struct SquaredRows {
  const SquaredRow* rows = nullptr;
  std::int64_t count = 0;  ///< rows
  std::int64_t blocks = 0; ///< as number_blocks() returned it
};

/// Partial sums that sum_of_squares() needs memory for.
inline constexpr std::int64_t most_square_parts = 1024;

/// Writes the sum of the squares of all elements, always in the same order.
/// `parts` has room for most_square_parts numbers.
[[nodiscard]] const char* sum_of_squares(
    const SquaredRows& rows,
    double* parts,
    double* sum,
    void* stream);

} // namespace cairn::kernels::cuda
