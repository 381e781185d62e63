#pragma once

#include <string>
#include <vector>

namespace cairn::cli {

/// The GPU part of `cairn info`. cuda_report.cpp fills it in builds with the
/// GPU parts, no_cuda_report.cpp in the others.
struct CudaReport {
  bool built_in = false;
  std::string cuda_version;
  std::string cudnn_version;
  std::string nccl_version;
  std::vector<std::string> devices; ///< one line each
  std::string no_device_reason;     ///< set if there are no devices
};

CudaReport cuda_report();

} // namespace cairn::cli
