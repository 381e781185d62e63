#pragma once

#include <cstdint>

namespace cairn::kernels::cuda {

// Clipping without the host. See cuda.h for what pointers, streams and results
// are.

/// How gradients are clipped.
struct Clip {
  double factor = 1; ///< turns the sums of gradients into gradients
  double limit = 0;  ///< the largest norm; 0: gradients are not clipped
};

/// Writes the norm of all gradients, given those of their parts as summed up,
/// and the factor of each gradient: clip.factor, and less where the norm is
/// above the limit.
[[nodiscard]] const char* clip_factor(
    const float* norms,
    std::int64_t count,
    const Clip& clip,
    double* norm,
    float* factor,
    void* stream);

} // namespace cairn::kernels::cuda
