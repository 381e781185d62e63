#pragma once

#include "monitor/internal/throughput.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace cairn::inline engine {

/// What is allocated now and was at most: by libtorch on a GPU, by the process
/// on the CPU.
monitor::AllocatedMemory allocated(at::Device device);

/// Bytes in use now, to compare moments with: of libtorch's allocator on a GPU,
/// else see cpu_memory.h.
std::int64_t held(at::Device device);

/// Waits until the device has done what it was given.
void synchronize(at::Device device);

/// What CUDA calls the device ("NVIDIA H200"); empty for a CPU.
std::string hardware_name(at::Device device);

} // namespace cairn::inline engine
