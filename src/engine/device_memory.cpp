#include "engine/device_memory.h"

#include <cairn/monitor/process_memory.h>

namespace cairn::engine {

monitor::AllocatedMemory allocated(at::Device) {
  const auto memory = monitor::ProcessMemory::read();
  return {.bytes = memory.resident, .peak_bytes = memory.peak_resident};
}

std::int64_t held(at::Device) {
  return static_cast<std::int64_t>(monitor::anonymous_resident());
}

void synchronize(at::Device) {}

} // namespace cairn::engine
