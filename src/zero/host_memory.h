#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::zero {

/// Elements in host memory that disks reach without another copy, and with
/// `pin` GPUs as well, while they compute. Not cleared.
at::Tensor host_memory(std::int64_t elements, at::ScalarType type, bool pin);

} // namespace cairn::zero
