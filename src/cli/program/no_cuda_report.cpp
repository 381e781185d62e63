#include "cli/program/cuda_report.h"

namespace cairn::cli {

CudaReport cuda_report() {
  const std::string absent = "not built in";
  return {
      .built_in = false,
      .cuda_version = absent,
      .cudnn_version = absent,
      .nccl_version = absent,
      .no_device_reason = "not looked for: this build has no GPU parts"};
}

} // namespace cairn::cli
