#include "distributed/internal/buffer_pool.h"

#include "distributed/backends/group_core.h"
#include "distributed/internal/agreement.h"

#include <algorithm>

namespace cairn::distributed {

std::shared_ptr<BufferPool> make_buffer_pool(
    const std::vector<ProcessGroup>& groups) {
  std::vector<GroupBackend*> backends;
  for (const ProcessGroup& group : groups) {
    GroupBackend* backend = Agreement::core_of(group)->backend.get();
    if (group.size() > 1 &&
        std::ranges::find(backends, backend) == backends.end()) {
      backends.push_back(backend);
    }
  }
  if (backends.empty()) {
    return nullptr;
  }
  return backends.front()->make_buffer_pool(
      {backends.begin() + 1, backends.end()});
}

} // namespace cairn::distributed
