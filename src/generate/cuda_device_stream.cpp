#include "generate/available_memory.h"
#include "generate/device_stream.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>

namespace cairn::generate {
namespace {

class CudaGraph final : public Recording {
 public:
  explicit CudaGraph(const std::function<void()>& work) {
    // Other threads may use the GPU meanwhile.
    graph_.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
    try {
      work();
    } catch (...) {
      try {
        graph_.capture_end();
      } catch (...) { // says again that the recording has failed
      }
      throw;
    }
    graph_.capture_end();
  }
  void repeat() override { graph_.replay(); }

 private:
  at::cuda::CUDAGraph graph_;
};

class CudaStream final : public DeviceStream {
 public:
  explicit CudaStream(at::Device device)
      : stream_(c10::cuda::getStreamFromPool(
            /*isHighPriority=*/false,
            device.index())) {}

  void run(const std::function<void()>& work) override {
    const c10::cuda::CUDAStream outer =
        c10::cuda::getCurrentCUDAStream(stream_.device_index());
    if (outer != stream_) {
      event_.record(outer);
      event_.block(stream_);
    }
    const c10::cuda::CUDAStreamGuard guard(stream_);
    work();
  }

  std::unique_ptr<Recording> record(
      const std::function<void()>& work) override {
    return std::make_unique<CudaGraph>(work);
  }

  void wait() override { stream_.synchronize(); }
  void* handle() const override { return stream_.stream(); }

 private:
  c10::cuda::CUDAStream stream_;
  at::cuda::CUDAEvent event_;
};

} // namespace

std::unique_ptr<DeviceStream> make_stream(at::Device device) {
  if (!device.is_cuda()) {
    return nullptr;
  }
  return std::make_unique<CudaStream>(device);
}

std::int64_t free_bytes(at::Device device) {
  if (!device.is_cuda()) {
    return available_memory();
  }
  const c10::cuda::CUDAGuard guard(device);
  // What libtorch keeps for later is free as well.
  c10::cuda::CUDACachingAllocator::emptyCache();
  std::size_t free = 0;
  std::size_t all = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &all));
  return static_cast<std::int64_t>(free);
}

} // namespace cairn::generate
