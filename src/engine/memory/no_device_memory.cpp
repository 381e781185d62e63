#include "engine/internal/device_memory.h"
#include "engine/memory/cpu_memory.h"
#include "monitor/internal/process_memory.h"

namespace cairn::inline engine {

monitor::AllocatedMemory allocated(at::Device) {
  const auto memory = monitor::ProcessMemory::read();
  return {.bytes = memory.resident, .peak_bytes = memory.peak_resident};
}

std::int64_t held(at::Device) {
  return cpu_memory_in_use();
}

void synchronize(at::Device) {}

std::string hardware_name(at::Device) {
  return {};
}

} // namespace cairn::engine
