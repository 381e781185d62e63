#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

#include "kernels/internal/accumulation.h"

namespace cairn::kernels::cuda {

// The kernels of cpu/cpu.h on the GPU. All pointers are device pointers unless
// stated otherwise. Work is queued on `stream` (a cudaStream_t of the current
// device) and not waited for. The result is null, or the reason why the work
// could not be started. Nothing here allocates.

/// True in a program that has these kernels: it links cairn::gpu.
bool has_kernels();

/// The stream on which libtorch works on that device now.
void* current_stream(int device);

/// Applies a formula; gives the same bits as on the CPU.
template <class Formula>
[[nodiscard]] const char* update(
    const Stretch& stretch,
    const Formula& formula,
    float* target,
    void* stream);

/// The number of doubles in the workspace of sum_of_squares().
inline constexpr std::int64_t sum_workspace = 1024;

/// Writes the sum of squares to `result[0]`. The order of additions depends on
/// `count` alone.
[[nodiscard]] const char* sum_of_squares(
    const void* values,
    Element element,
    std::int64_t count,
    double* workspace,
    double* result,
    void* stream);

/// Writes the position of the first inf or nan, or -1, to `result[0]`.
[[nodiscard]] const char* first_non_finite(
    const void* values,
    Element element,
    std::int64_t count,
    std::int64_t* result,
    void* stream);

/// Adds `from` to `into`, or replaces it.
[[nodiscard]] const char* accumulate(
    float* into,
    const void* from,
    Element element,
    std::int64_t count,
    Accumulation how,
    void* stream);

[[nodiscard]] const char* convert(
    const void* from,
    Element from_type,
    void* to,
    Element to_type,
    std::int64_t count,
    void* stream);

} // namespace cairn::kernels::cuda
