#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// SwiGLU: y = silu(gate) * up, where silu(x) = x / (1 + e^-x). See cuda.h for
// what pointers, streams and results are.

[[nodiscard]] const char* swiglu_forward(
    Element element,
    std::int64_t count,
    const void* gate,
    const void* up,
    void* y,
    void* stream);

/// Writes the gradients of gate and up, given that of y.
[[nodiscard]] const char* swiglu_backward(
    Element element,
    std::int64_t count,
    const void* gradient,
    const void* gate,
    const void* up,
    void* of_gate,
    void* of_up,
    void* stream);

} // namespace cairn::kernels::cuda
