#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// Rotary positions. See cuda.h for what pointers, streams and results are.

/// Heads of `2 * half` elements; element j and element j + half of a head are
/// turned by the same angle. `from` may have gaps, the result has none.
struct Rotation {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t half = 0;
  // Elements from one to the next in `from`.
  std::int64_t batch_step = 0;
  std::int64_t token_step = 0;
  std::int64_t head_step = 0;
  /// Rows of the tables of cosines and sines, [positions, half]: token t has
  /// row t modulo this number.
  std::int64_t positions = 0;
  Element element = Element::bf16; ///< of everything
  bool back = false;               ///< turn back, as gradients are
};

[[nodiscard]] const char* rotate(
    const Rotation& rotation,
    const void* from,
    const void* cosine,
    const void* sine,
    void* to,
    void* stream);

} // namespace cairn::kernels::cuda
