#include "nn/recompute/devices_in_use.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>

namespace cairn::nn {

std::vector<c10::Device> devices_in_use() {
  std::vector<c10::Device> devices;
  const auto type = at::getAccelerator();
  if (!type) {
    return devices;
  }
  const auto& hooks = at::globalContext().getAcceleratorHooksInterface(*type);
  const c10::DeviceIndex count = hooks.deviceCount();
  for (c10::DeviceIndex i = 0; i < count; ++i) {
    if (hooks.hasPrimaryContext(i)) {
      devices.emplace_back(*type, i);
    }
  }
  return devices;
}

void synchronize_devices() {
  for (const c10::Device& device : devices_in_use()) {
    at::accelerator::synchronizeDevice(device.index());
  }
}

} // namespace cairn::nn
