#pragma once

#include <functional>

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_size, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
};

/// The place of the thread that runs now.
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_on_cpu {

/// Runs `thread` for every thread of every block. Throws what a thread throws,
/// and std::logic_error for a block that no GPU would take.
void run(dim3 blocks, dim3 threads, const std::function<void()>& thread);

/// Lets the other threads of the block go on until all are here.
void wait_for_block();

/// The value of the thread of the same warp whose number differs in `mask`. All
/// threads of the warp call it.
float exchange(float value, int mask);

} // namespace cuda_on_cpu
