#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// The kernels of cpu/cpu.h on the GPU. All pointers are the device's unless
// said otherwise; work is put on `stream` (a cudaStream_t of the current
// device) and not waited for. What comes back is null, or why it could not be
// started. Nothing here allocates.

/// The same bits as on the CPU.
template <class Formula>
[[nodiscard]] const char* update(
    const Stretch& stretch,
    const Formula& formula,
    float* target,
    void* stream);

/// Doubles that sum_of_squares() works in.
inline constexpr std::int64_t sum_workspace = 1024;

/// To `result[0]`. The order of additions depends on nothing but `count`.
[[nodiscard]] const char* sum_of_squares(
    const void* values,
    Element element,
    std::int64_t count,
    double* workspace,
    double* result,
    void* stream);

/// The position of the first inf or nan to `result[0]`, or -1.
[[nodiscard]] const char* first_non_finite(
    const void* values,
    Element element,
    std::int64_t count,
    std::int64_t* result,
    void* stream);

/// into = factor * from, or is increased by it unless `overwrite`.
[[nodiscard]] const char* accumulate(
    float* into,
    const void* from,
    Element element,
    std::int64_t count,
    float factor,
    bool overwrite,
    void* stream);

[[nodiscard]] const char* convert(
    const void* from,
    Element from_type,
    void* to,
    Element to_type,
    std::int64_t count,
    void* stream);

} // namespace cairn::kernels::cuda
