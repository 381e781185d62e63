#pragma once

#include <cuda_runtime.h>

#include <cstdint>

// Messages of 16 bytes between the blocks of a kernel that all run at once. The
// upper half of a message's last word is its number: whoever reads the message
// waits for that number, so neither a fence nor a barrier is needed. A message
// is written and read as a whole. The stand-in for a GPU
// (tests/kernels/cuda_on_cpu) has functions of the same names.

#ifndef __CUDACC__
#include <messages_on_cpu.h>
#else
namespace cairn::kernels::cuda {

__device__ inline void send_message(uint4* to, const uint4& message) {
  const std::uint64_t low =
      static_cast<std::uint64_t>(message.y) << 32U | message.x;
  const std::uint64_t high =
      static_cast<std::uint64_t>(message.w) << 32U | message.z;
  asm volatile("{\n"
               ".reg .b128 all;\n"
               "mov.b128 all, {%1, %2};\n"
               "st.relaxed.gpu.global.b128 [%0], all;\n"
               "}"
               :
               : "l"(to), "l"(low), "l"(high)
               : "memory");
}

/// What is there now, be it the message that is waited for or an older one.
__device__ inline uint4 look_at_message(const uint4* from) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  asm volatile("{\n"
               ".reg .b128 all;\n"
               "ld.relaxed.gpu.global.b128 all, [%2];\n"
               "mov.b128 {%0, %1}, all;\n"
               "}"
               : "=l"(low), "=l"(high)
               : "l"(from)
               : "memory");
  return {
      static_cast<unsigned>(low),
      static_cast<unsigned>(low >> 32U),
      static_cast<unsigned>(high),
      static_cast<unsigned>(high >> 32U)};
}

/// Called between two looks.
__device__ inline void wait_for_messages() {}

} // namespace cairn::kernels::cuda
#endif
