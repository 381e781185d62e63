#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_size, unsigned y_size = 1, unsigned z_size = 1)
      : x(x_size), y(y_size), z(z_size) {}
};

/// The place of the thread that runs now.
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace cuda_on_cpu {

/// Runs `thread` for every thread of every block, each of which has
/// `shared_bytes` of memory. Throws what a thread throws, and std::logic_error
/// for a block that no GPU would take.
void run(
    dim3 blocks,
    dim3 threads,
    std::size_t shared_bytes,
    const std::function<void()>& thread);

/// The memory of the block that runs now, full of noise when the block begins.
void* shared_memory();

/// Copies of the thread that runs now: they are done when it waits for them,
/// not before, so that a kernel that does not wait reads noise. `left` is the
/// number of latest groups that it does not wait for.
void copy_later(void* to, const void* from, std::size_t bytes);
void end_of_copies();
void wait_for_copies(std::size_t left);

/// Lets the other threads of the block go on until all are here.
void wait_for_block();

/// Lets the first `count` threads of the block wait for each other.
void wait_for_first(unsigned count);
/// Lets other threads run before this one goes on.
void let_others_run();

/// The value of the thread of the same warp whose number differs in `mask`. All
/// threads of the warp call it.
float exchange(float value, int mask);

/// Writes the first `count` words of every thread of the warp, in turn, to
/// `all`. All threads of the warp call it. At most 8 words.
void gather(const std::uint32_t* own, std::size_t count, std::uint32_t* all);

/// The memory at `place` of every thread of the warp, in turn.
void gather(const void* place, const void** all);

} // namespace cuda_on_cpu
