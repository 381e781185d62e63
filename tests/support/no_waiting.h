#pragma once

#include <c10/cuda/CUDAFunctions.h>

namespace cairn::testing {

/// Any wait of the host for the GPU, within libtorch, is an error while it
/// lives.
class NoWaiting {
 public:
  NoWaiting() { set(c10::cuda::SyncDebugMode::L_ERROR); }
  ~NoWaiting() { set(c10::cuda::SyncDebugMode::L_DISABLED); }
  NoWaiting(const NoWaiting&) = delete;
  NoWaiting& operator=(const NoWaiting&) = delete;

 private:
  static void set(c10::cuda::SyncDebugMode mode) {
    c10::cuda::warning_state().set_sync_debug_mode(mode);
  }
};

} // namespace cairn::testing
