#pragma once

#include <c10/core/Device.h>
#include <cairn/monitor/throughput.h>

namespace cairn::engine {

/// What is allocated now and was at most: by libtorch on a GPU, by the process
/// on the CPU.
monitor::AllocatedMemory allocated(at::Device device);

/// Waits until the device has done what it was given.
void synchronize(at::Device device);

} // namespace cairn::engine
