#include "cli/cuda_report.h"

#include "distributed/nccl_version.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <cuda_runtime_api.h>
#include <fmt/core.h>

namespace cairn::cli {
namespace {

std::string dotted(long version, long thousands) {
  return fmt::format(
      "{}.{}",
      version / thousands,
      version % thousands / (thousands / 100));
}

} // namespace

CudaReport cuda_report() {
  CudaReport report{.built_in = true};
  int runtime = 0;
  int driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  report.cuda_version = fmt::format(
      "{} (driver supports {})",
      dotted(runtime, 1000),
      driver == 0 ? "none: no driver" : dotted(driver, 1000));
  report.cudnn_version =
      at::detail::getCUDAHooks().compiledWithCuDNN() && driver != 0
      ? std::to_string(at::detail::getCUDAHooks().versionRuntimeCuDNN())
      : "not loaded";
  report.nccl_version = distributed::nccl_version();

  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    report.no_device_reason = cudaGetErrorString(status);
    return report;
  }
  report.no_device_reason = "none";
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp device{};
    cudaGetDeviceProperties(&device, index);
    report.devices.push_back(fmt::format(
        "cuda:{} {}, sm_{}{}, {} SMs, {:.1f} GiB",
        index,
        device.name,
        device.major,
        device.minor,
        device.multiProcessorCount,
        double(device.totalGlobalMem) / (1 << 30)));
  }
  return report;
}

} // namespace cairn::cli
