#pragma once

#include <string>

namespace cairn::distributed {

/// Of the NCCL that is loaded, e.g. `2.28.9`. Only in builds with the GPU
/// parts.
std::string nccl_version();

} // namespace cairn::distributed
