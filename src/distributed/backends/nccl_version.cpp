#include "distributed/internal/nccl_version.h"

#include <torch/csrc/distributed/c10d/NCCLUtils.hpp>

namespace cairn::distributed {

std::string nccl_version() {
  return c10d::getNcclVersion();
}

} // namespace cairn::distributed
