#pragma once

#include "cuda_runtime.h"

// The functions of kernels/cuda/bulk_copies.cuh. Copies arrive at once; memory
// that is written too early or too late is full of what should not be read.

namespace cairn::kernels::cuda {

struct CopyBarrier {
  std::uint16_t threads;
  std::uint16_t missing;
  std::uint32_t phase;
};

inline void make_barrier(CopyBarrier* barrier, unsigned threads) {
  const auto count = static_cast<std::uint16_t>(threads);
  *barrier = {count, count, 0};
}
inline void publish_barriers() {}

inline void arrive(CopyBarrier* barrier) {
  if (--barrier->missing == 0) {
    barrier->missing = barrier->threads;
    ++barrier->phase;
  }
}
inline void arrive_times(CopyBarrier* barrier, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    arrive(barrier);
  }
}
/// The copies of an announcement are made by other threads, which are let go
/// first.
inline void arrive_for(CopyBarrier* barrier, unsigned bytes) {
  static_cast<void>(bytes);
  arrive(barrier);
}
inline void wait_for_phase(CopyBarrier* barrier, unsigned phase) {
  while ((barrier->phase & 1U) == (phase & 1U)) {
    cuda_on_cpu::let_others_run();
  }
}
inline void copy_in_bulk(
    void* to,
    const void* from,
    unsigned bytes,
    CopyBarrier*) {
  std::memcpy(to, from, bytes);
}
inline void read_now(uint4& to, const uint4* from, bool reads) {
  if (reads) {
    to = *from;
  }
}
inline void meet_first(int threads) {
  cuda_on_cpu::wait_for_first(static_cast<unsigned>(threads));
}
inline void meet_warp() {
  cuda_on_cpu::exchange(0, 0);
}

} // namespace cairn::kernels::cuda
