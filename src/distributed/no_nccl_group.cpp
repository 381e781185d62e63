#include "group_backend.h"

#include <cairn/base/error.h>

namespace cairn::distributed {

std::unique_ptr<BackendFactory> nccl_factory(const FactoryOptions&) {
  throw ConfigError(
      {.what = "the nccl backend is not built in",
       .remedy = "configure with --preset cuda, or use the gloo backend"});
}

int visible_gpus() {
  return 0;
}

} // namespace cairn::distributed
