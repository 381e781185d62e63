#pragma once

#include "kernels/device.h"

#include <cstdint>

// States of an optimizer in 16 bits. All functions work on the bits of floats,
// and give the same bits on the CPU and on the GPU.

namespace cairn::kernels {

/// A float without the payload of a nan, which could not be told from a number
/// once its halves are apart.
CAIRN_DEVICE std::uint32_t quiet(std::uint32_t bits) {
  return (bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc00000U : bits;
}

/// A weight's bf16 value: its upper half, rounded to nearest. A value in the
/// middle is rounded away from zero.
CAIRN_DEVICE std::uint16_t upper_half(std::uint32_t bits) {
  return static_cast<std::uint16_t>((bits + 0x8000U) >> 16U);
}

/// The half that bf16 drops. Its highest bit says that the upper half was
/// rounded up, so nothing is lost.
CAIRN_DEVICE std::uint16_t remainder(std::uint32_t bits) {
  return static_cast<std::uint16_t>(bits);
}

/// The float of which these are upper_half() and remainder().
CAIRN_DEVICE std::uint32_t joined(std::uint16_t upper, std::uint16_t lower) {
  const std::uint32_t rounded_up = lower >> 15U;
  return ((static_cast<std::uint32_t>(upper) - rounded_up) << 16U) | lower;
}

/// A bijection of 32 bits that looks random.
CAIRN_DEVICE std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16U;
  x *= 0x7feb352dU;
  x ^= x >> 15U;
  x *= 0x846ca68bU;
  return x ^ (x >> 16U);
}

/// Rounds to bf16, up or down by chance: up with the probability that the
/// dropped half is of a whole step, so that small changes are not lost on
/// average. The chance is drawn from the value and the key of the update: no
/// place in a tensor is part of it, and every layout rounds alike.
CAIRN_DEVICE std::uint16_t rounded_by_chance(
    std::uint32_t bits,
    std::uint32_t key) {
  const bool finite = (bits & 0x7f800000U) != 0x7f800000U;
  const std::uint32_t chance = mixed(bits ^ key) & 0xffffU;
  return static_cast<std::uint16_t>(
      (finite ? bits + chance : quiet(bits)) >> 16U);
}

/// The key of state number `state` in an update.
CAIRN_DEVICE std::uint32_t key_of_state(std::uint32_t key, int state) {
  return mixed(2 * key + static_cast<std::uint32_t>(state));
}

} // namespace cairn::kernels
