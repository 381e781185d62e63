#pragma once

#include <c10/core/Device.h>

#include <vector>

namespace cairn::nn {

/// The GPUs on which this process has begun to work. Asking does not initialise
/// any.
std::vector<c10::Device> devices_in_use();

/// Waits until these GPUs have finished their work.
void synchronize_devices();

} // namespace cairn::nn
