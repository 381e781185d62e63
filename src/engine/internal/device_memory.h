#pragma once

#include "monitor/internal/throughput.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace cairn::inline engine {

/// Allocated memory, now and at most: by libtorch on a GPU, by the process on
/// the CPU.
monitor::AllocatedMemory allocated(at::Device device);

/// Bytes in use now, for comparing moments: those of libtorch's allocator on a
/// GPU, else see cpu_memory.h.
std::int64_t held(at::Device device);

/// Waits until the device has done its work.
void synchronize(at::Device device);

/// CUDA's name for the device ("NVIDIA H200"); empty for a CPU.
std::string hardware_name(at::Device device);

} // namespace cairn::engine
