#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace cairn::zero {

/// Elements in host memory that disks can read and write without another copy;
/// with `pin`, GPUs as well while they compute. Not cleared.
at::Tensor host_memory(std::int64_t elements, at::ScalarType type, bool pin);

} // namespace cairn::zero
