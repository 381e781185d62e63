#pragma once

#include <cstdint>

namespace cairn::kernels::cuda {

/// The row of a table that a block works on: the last one whose first block is
/// not after it. The table has at least one row.
template <class Row>
__device__ const Row& row_of_block(
    const Row* rows,
    std::int64_t count,
    std::int64_t block) {
  std::int64_t row = 0;
  std::int64_t end = count;
  while (end - row > 1) {
    const std::int64_t middle = row + (end - row) / 2;
    if (rows[middle].first_block <= block) {
      row = middle;
    } else {
      end = middle;
    }
  }
  return rows[row];
}

} // namespace cairn::kernels::cuda
