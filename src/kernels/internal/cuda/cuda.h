#pragma once

#include <cairn/kernels/stretch.h>

#include <cstdint>

namespace cairn::kernels::cuda {

// The kernels of cpu/cpu.h on the GPU. All pointers are device pointers unless
// stated otherwise. Work is queued on `stream` (a cudaStream_t of the current
// device) and not waited for. The result is null, or the reason why the work
// could not be started. Nothing here allocates.

/// True in a program that has these kernels: it links cairn::gpu.
bool has_kernels();

/// The stream on which libtorch works on that device now.
void* current_stream(int device);

/// True when that stream records its work as a CUDA graph instead of running
/// it. The host must not wait for anything on it then.
bool is_recording(int device);

/// Applies a formula; gives the same bits as on the CPU.
template <class Formula>
[[nodiscard]] const char* update(
    const Stretch& stretch,
    const Formula& formula,
    float* target,
    void* stream);

/// Writes from * factor[0] to `to`, computed in float. `to` may be `from`.
[[nodiscard]] const char* scale(
    const void* from,
    Element from_type,
    const float* factor,
    void* to,
    Element to_type,
    std::int64_t count,
    void* stream);

} // namespace cairn::kernels::cuda
