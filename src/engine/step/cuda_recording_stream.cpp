#include "engine/internal/recording_stream.h"

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <memory>

namespace cairn::inline engine {
namespace {

class CudaGraph final : public RecordedWork {
 public:
  explicit CudaGraph(const std::function<void()>& work) {
    // Other threads, such as those that load data, may do what they like.
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

class CudaStream final : public RecordingStream {
 public:
  explicit CudaStream(at::Device device)
      : stream_(c10::cuda::getStreamFromPool(
            /*isHighPriority=*/false,
            device.index())) {}

  void run(const std::function<void()>& work) override {
    const c10::cuda::CUDAStream outer =
        c10::cuda::getCurrentCUDAStream(stream_.device_index());
    wait(stream_, outer);
    {
      const c10::cuda::CUDAStreamGuard guard(stream_);
      work();
    }
    wait(outer, stream_);
  }

  std::unique_ptr<RecordedWork> record(
      const std::function<void()>& work) override {
    return std::make_unique<CudaGraph>(work);
  }

  std::function<bool()> end_so_far() override {
    auto event = std::make_shared<at::cuda::CUDAEvent>();
    event->record(stream_);
    return [event] {
      try {
        return event->query();
      } catch (const std::exception&) {
        return false; // the GPU has failed, and will not come to it
      }
    };
  }

 private:
  static void wait(c10::cuda::CUDAStream waiting, c10::cuda::CUDAStream on) {
    at::cuda::CUDAEvent event;
    event.record(on);
    event.block(waiting);
  }

  c10::cuda::CUDAStream stream_;
};

} // namespace

std::unique_ptr<RecordingStream> recording_stream(at::Device device) {
  return device.is_cuda() ? std::make_unique<CudaStream>(device) : nullptr;
}

} // namespace cairn::engine
