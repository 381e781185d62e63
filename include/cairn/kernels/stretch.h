#pragma once

#include <array>
#include <cstdint>

namespace cairn::kernels {

enum class Element : std::uint8_t { fp32, fp16, bf16 };

constexpr std::int64_t bytes_of(Element element) {
  return element == Element::fp32 ? 4 : 2;
}

/// Weights and states in 16 bits, each where its pointer is not null.
struct NarrowStates {
  /// The halves of the fp32 weights that their bf16 copy drops: copy and
  /// remainder are the weight, and Stretch::weights is null.
  std::uint16_t* remainders = nullptr;
  /// States in bf16, in place of those of Stretch. They are rounded by chance.
  std::array<std::uint16_t*, 2> states{};
  std::uint32_t key = 0; ///< of the chance; another one for each update

  bool any() const {
    return remainders != nullptr || states[0] != nullptr ||
        states[1] != nullptr;
  }
};

/// Part of a flat shard whose elements share a parameter group. All pointers
/// are on one device, do not overlap, and need only the alignment of their
/// element.
struct Stretch {
  float* weights = nullptr; ///< fp32 master
  const void* gradients = nullptr;
  Element gradient_type = Element::fp32;
  void* copy = nullptr; ///< also gets the new weights; may be null
  Element copy_type = Element::bf16;
  std::array<float*, 2> states{}; ///< as many as the formula has
  NarrowStates narrow{};          ///< elementwise formulas alone take them
  /// Multiplies all gradients first, on a GPU alone; may be null.
  const float* gradient_factor = nullptr;
  std::int64_t count = 0;
};

/// `stretch` without its first `offset` elements, and at most `count` of the
/// rest. Callers use it to split a stretch over threads.
Stretch part_of(
    const Stretch& stretch,
    std::int64_t offset,
    std::int64_t count);

} // namespace cairn::kernels
