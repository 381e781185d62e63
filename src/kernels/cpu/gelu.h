#pragma once

#include <cstdint>

// GELU and its derivative in one pass each, where libtorch has only scalar code
// for it: on Arm. (On x86_64 it compiles kernels of its own at run time.)

namespace cairn::kernels::cpu {

#ifdef __aarch64__
inline constexpr bool has_gelu = true;
#else
inline constexpr bool has_gelu = false;
#endif

enum class Gelu { exact, tanh };

/// y = gelu(x)
void gelu(Gelu kind, const float* x, float* y, std::int64_t count);

/// dx = dy * gelu'(x); dx may be dy.
void gelu_backward(
    Gelu kind,
    const float* x,
    const float* dy,
    float* dx,
    std::int64_t count);

} // namespace cairn::kernels::cpu
