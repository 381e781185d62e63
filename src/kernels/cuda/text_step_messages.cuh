#pragma once

#include "kernels/cuda/messages.cuh"
#include "kernels/cuda/text_step_plan.cuh"

#include <cstdint>

// The messages of text_step.cu: values of 16 bits, and a number.

namespace cairn::kernels::cuda {

__device__ inline bool is_message(const uint4& message, unsigned number) {
  return message.w >> 16U == number;
}

__device__ inline uint4 receive(
    const uint4* from,
    uint4 message,
    unsigned number) {
  while (!is_message(message, number)) {
    wait_for_messages();
    message = look_at_message(from);
  }
  return message;
}

/// 16 bits of a message.
__device__ inline std::uint16_t half_of(const uint4& message, int i) {
  const unsigned word = i < 2 ? message.x
      : i < 4                 ? message.y
      : i < 6                 ? message.z
                              : message.w;
  return static_cast<std::uint16_t>(i % 2 == 0 ? word : word >> 16U);
}

/// The place of element `i` of x in shared memory: the two middle words of a
/// piece change places, so that a piece is a part of a product's first factor
/// as it is read.
__device__ inline int place_in_x(int i) {
  return (i & ~6) | (i & 2) << 1 | (i & 4) >> 1;
}

/// Writes the first `rows` values of a message to places from `begin` on.
/// `place` tells the place of a number.
template <class Place>
__device__ void write_values(
    uint4 message,
    std::uint16_t* to,
    int begin,
    int rows,
    const Place& place) {
  if (begin % 2 != 0) {
    if (rows > 0) {
      to[place(begin)] = static_cast<std::uint16_t>(message.x);
    }
    message.x = __byte_perm(message.x, message.y, 0x5432);
    message.y = __byte_perm(message.y, message.z, 0x5432);
    message.z = __byte_perm(message.z, message.w, 0x5432);
    ++begin;
    --rows;
  }
  const std::uint32_t pairs[3] = {message.x, message.y, message.z};
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    if (rows > 2 * i + 1) {
      *reinterpret_cast<std::uint32_t*>(to + place(begin + 2 * i)) = pairs[i];
    } else if (rows > 2 * i) {
      to[place(begin + 2 * i)] = static_cast<std::uint16_t>(pairs[i]);
    }
  }
  if (rows == unit_rows) {
    to[place(begin + 6)] = static_cast<std::uint16_t>(message.w);
  }
}

} // namespace cairn::kernels::cuda
