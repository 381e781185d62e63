#pragma once

#include "cuda_runtime.h"

/// Copies arrive when they are waited for, no sooner: see cuda_on_cpu.h.
inline void __pipeline_memcpy_async(
    void* to,
    const void* from,
    std::size_t bytes) {
  cuda_on_cpu::copy_later(to, from, bytes);
}
inline void __pipeline_commit() {
  cuda_on_cpu::end_of_copies();
}
inline void __pipeline_wait_prior(std::size_t left) {
  cuda_on_cpu::wait_for_copies(left);
}
