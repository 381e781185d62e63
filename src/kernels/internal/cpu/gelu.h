#pragma once

#include <cstdint>

// GELU and its derivative in one pass. Used on Arm, where libtorch has only
// scalar code for it. (On x86_64 libtorch compiles its own kernels at run
// time.)

namespace cairn::kernels::cpu {

#ifdef __aarch64__
inline constexpr bool has_gelu = true;
#else
inline constexpr bool has_gelu = false;
#endif

enum class Gelu { exact, tanh };

/// y = gelu(x), and, unless `slope` is null, slope = gelu'(x), which costs
/// little extra.
void gelu(
    Gelu kind,
    const float* x,
    float* y,
    float* slope,
    std::int64_t count);

} // namespace cairn::kernels::cpu
