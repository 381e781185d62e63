#include "distributed/backends/group_backend.h"

#include <cairn/base/error.h>

namespace cairn::distributed {

std::unique_ptr<BackendFactory> nccl_factory(const FactoryOptions&) {
  throw ConfigError(
      {.what = "this program is not linked with the nccl backend",
       .remedy = "configure with -DCAIRN_CUDA=ON and link cairn::gpu, or use "
                 "the gloo backend"});
}

int visible_gpus() {
  return 0;
}

} // namespace cairn::distributed
