#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace cairn::generate {

/// Work that a stream has recorded, to be started again as a whole: on a GPU a
/// CUDA graph. It reads and writes the same memory as when it was recorded.
class Recording {
 public:
  Recording() = default;
  virtual ~Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  virtual void repeat() = 0;
};

/// A device's own queue of work.
class DeviceStream {
 public:
  DeviceStream() = default;
  virtual ~DeviceStream() = default;
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  /// Calls `work`, whose operators and kernels are queued here, behind what
  /// libtorch's current stream has so far.
  virtual void run(const std::function<void()>& work) = 0;
  /// Records what `work` queues. Only within run(). `work` must not wait.
  virtual std::unique_ptr<Recording> record(
      const std::function<void()>& work) = 0;
  /// Waits until all work is done that was queued here.
  virtual void wait() = 0;
  /// The stream for kernels, a cudaStream_t.
  virtual void* handle() const = 0;
};

/// A new stream of a GPU. The CPU has none: work is done when it is queued.
std::unique_ptr<DeviceStream> make_stream(at::Device device);

/// Bytes that are free in the device's memory.
std::int64_t free_bytes(at::Device device);

} // namespace cairn::generate
