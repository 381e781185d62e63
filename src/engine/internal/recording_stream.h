#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace cairn::inline engine {

/// Work that a GPU's stream has recorded, to be started again as a whole: a
/// CUDA graph. The host queues it in one call, however many kernels it has.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Queues the work on the stream that recorded it. It reads and writes the
  /// same memory as when it was recorded.
  virtual void repeat() = 0;
};

/// A stream of a GPU on which work can be recorded.
class RecordingStream {
 public:
  virtual ~RecordingStream() = default;

  /// Runs `work`, whose kernels go to this stream: after those that the current
  /// stream has so far, and before those that it gets next. Tensors may
  /// therefore be made on the one and used on the other.
  virtual void run(const std::function<void()>& work) = 0;
  /// Records the kernels that `work` queues, without running them. Only within
  /// run(). `work` must not wait for the GPU.
  virtual std::unique_ptr<RecordedWork> record(
      const std::function<void()>& work) = 0;
  /// A function that tells whether the work of this stream so far is over. Any
  /// thread may call it.
  virtual std::function<bool()> end_so_far() = 0;
};

/// A stream of that device; null for a CPU, and in a program without GPU parts.
std::unique_ptr<RecordingStream> recording_stream(at::Device device);

} // namespace cairn::engine
