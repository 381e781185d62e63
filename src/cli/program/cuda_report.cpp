#include "cli/program/cuda_report.h"

#include "distributed/internal/nccl_version.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <cuda_runtime_api.h>
#include <fmt/core.h>

namespace cairn::cli {
namespace {

/// 13000 is CUDA 13.0.
std::string cuda_version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

/// 91900 is cuDNN 9.19.0.
std::string cudnn_version(long number) {
  return fmt::format(
      "{}.{}.{}",
      number / 10000,
      number / 100 % 100,
      number % 100);
}

} // namespace

CudaReport cuda_report() {
  CudaReport report{.built_in = true};
  int runtime = 0;
  int driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  report.cuda_version = fmt::format(
      "{} ({})",
      cuda_version(runtime),
      driver == 0 ? "no driver" : "driver for " + cuda_version(driver));
  const auto& hooks = at::detail::getCUDAHooks();
  report.cudnn_version = driver != 0 && hooks.compiledWithCuDNN()
      ? cudnn_version(hooks.versionRuntimeCuDNN())
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
