#pragma once

#include <string>

namespace cairn::distributed {

/// Version of the loaded NCCL, e.g. `2.28.9`. Only in builds with the GPU
/// parts.
std::string nccl_version();

} // namespace cairn::distributed
