#pragma once

#include <cstdint>

// GELU and its derivative in one pass, where libtorch has only scalar code
// for it: on Arm. (On x86_64 it compiles kernels of its own at run time.)

namespace cairn::kernels::cpu {

#ifdef __aarch64__
inline constexpr bool has_gelu = true;
#else
inline constexpr bool has_gelu = false;
#endif

enum class Gelu { exact, tanh };

/// y = gelu(x), and unless it is null slope = gelu'(x), which costs little
/// beside it.
void gelu(
    Gelu kind,
    const float* x,
    float* y,
    float* slope,
    std::int64_t count);

} // namespace cairn::kernels::cpu
