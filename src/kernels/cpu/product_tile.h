#pragma once

#include <cstdint>

namespace cairn::kernels::cpu {

/// The values that are added to a tile: rows `step` apart; with `step` 0 the
/// same row for all.
struct TileStart {
  const float* data = nullptr; ///< null: nothing is added
  std::int64_t step = 0;
};

/// The inputs and the output of the innermost loop of a product:
/// c[rows][columns] = a[depth][rows] x b[depth][columns] + start. `a` and `b`
/// are packed for whole tiles, of which `c` may be a part.
struct Tile {
  const float* a = nullptr;
  const float* b = nullptr;
  std::int64_t depth = 0;
  float* c = nullptr;
  std::int64_t c_step = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  TileStart start;
};

} // namespace cairn::kernels::cpu
