#include "engine/internal/device_memory.h"
#include "engine/memory/cpu_memory.h"
#include "monitor/internal/process_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace cairn::inline engine {

monitor::AllocatedMemory allocated(at::Device device) {
  if (!device.is_cuda()) {
    const auto memory = monitor::ProcessMemory::read();
    return {.bytes = memory.resident, .peak_bytes = memory.peak_resident};
  }
  auto& allocator = *c10::cuda::CUDACachingAllocator::get();
  if (!allocator.initialized()) {
    return {}; // nothing was ever allocated there
  }
  const auto stats = allocator.getDeviceStats(device.index());
  const auto& bytes = stats.allocated_bytes[0]; // statistics of all pools
  return {
      .bytes = static_cast<std::uint64_t>(bytes.current),
      .peak_bytes = static_cast<std::uint64_t>(bytes.peak)};
}

std::int64_t held(at::Device device) {
  return device.is_cuda() ? static_cast<std::int64_t>(allocated(device).bytes)
                          : cpu_memory_in_use();
}

void synchronize(at::Device device) {
  if (device.is_cuda()) {
    c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
  }
}

std::string hardware_name(at::Device device) {
  cudaDeviceProp properties{};
  if (!device.is_cuda() ||
      cudaGetDeviceProperties(&properties, device.index()) != cudaSuccess) {
    return {};
  }
  return static_cast<const char*>(properties.name);
}

} // namespace cairn::engine
