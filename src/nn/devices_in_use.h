#pragma once

#include <c10/core/Device.h>

#include <vector>

namespace cairn::nn {

/// The GPUs on which this process has begun to work. None are woken up by
/// asking.
std::vector<c10::Device> devices_in_use();

/// Waits until they have done what they were given.
void synchronize_devices();

} // namespace cairn::nn
