#pragma once

#include "distributed/backends/nccl_connection.h"
#include "distributed/internal/buffer_pool.h"

#include <memory>
#include <vector>

namespace cairn::distributed {

/// Makes memory, with ncclMemAlloc where the GPU allows it, and registers it
/// with all groups.
std::unique_ptr<BufferPool> nccl_buffer_pool(
    std::vector<NcclPtr> groups,
    c10::DeviceIndex device);

} // namespace cairn::distributed
