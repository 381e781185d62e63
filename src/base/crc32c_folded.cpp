#include "base/crc32c_kernel.h"
#include "base/crc32c_polynomial.h"

#if defined(__aarch64__)

#include <array>
#include <cstring>

namespace cairn::inline base::crc32c_detail {
namespace {

using Vector = std::uint64_t __attribute__((vector_size(16)));

// Assembly for the reason given in crc32c_hardware.cpp.
Vector product_of_low(Vector a, Vector b) {
  Vector product;
  asm(".arch_extension aes\n\tpmull %0.1q, %1.1d, %2.1d"
      : "=w"(product)
      : "w"(a), "w"(b));
  return product;
}

Vector product_of_high(Vector a, Vector b) {
  Vector product;
  asm(".arch_extension aes\n\tpmull2 %0.1q, %1.2d, %2.2d"
      : "=w"(product)
      : "w"(a), "w"(b));
  return product;
}

/// The factors that move the two words of a vector `bytes` further back. Words
/// are reflected like checksums, and so is their product, which comes out one
/// power of x too high.
constexpr Vector steps_back(std::size_t bytes) {
  constexpr std::uint32_t x7 = one >> 7;
  const std::uint64_t low = times(zero_bytes(bytes + 7), x7);
  const std::uint64_t high = times(zero_bytes(bytes - 1), x7);
  return Vector{low << 32, high << 32};
}

Vector move_back(Vector value, Vector steps) {
  return product_of_low(value, steps) ^ product_of_high(value, steps);
}

Vector load_vector(const std::byte* bytes) {
  Vector vector;
  std::memcpy(&vector, bytes, sizeof vector);
  return vector;
}

/// Folds the bytes into eight vectors that have the same remainder as all bytes
/// so far; eight are enough for the multiplications not to wait for each other.
/// `also` gets every vector and its offset. `size` must be a multiple of
/// `stretch` and not 0.
constexpr std::size_t lanes = 8;
constexpr std::size_t stretch = lanes * sizeof(Vector);

template <typename Also>
std::uint32_t fold(
    std::uint32_t state,
    const std::byte* bytes,
    std::size_t size,
    const Also& also) {
  std::array<Vector, lanes> carried;
  for (std::size_t i = 0; i < lanes; ++i) {
    carried[i] = load_vector(bytes + i * sizeof(Vector));
    also(i * sizeof(Vector), carried[i]);
  }
  carried[0] ^= Vector{state, 0};
  constexpr Vector by_stretch = steps_back(stretch);
  for (std::size_t at = stretch; at < size; at += stretch) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < lanes; ++i) {
      const std::size_t here = at + i * sizeof(Vector);
      const Vector next = load_vector(bytes + here);
      also(here, next);
      carried[i] = move_back(carried[i], by_stretch) ^ next;
    }
  }
  constexpr Vector by_vector = steps_back(sizeof(Vector));
  Vector last = carried[0];
  for (std::size_t i = 1; i < lanes; ++i) {
    last = move_back(last, by_vector) ^ carried[i];
  }
  std::array<std::byte, sizeof(Vector)> left;
  std::memcpy(left.data(), &last, left.size());
  return hardware(0, left.data(), left.size());
}

} // namespace

std::uint32_t folded(
    std::uint32_t state,
    const std::byte* bytes,
    std::size_t size) {
  const std::size_t whole = size / stretch * stretch;
  if (whole > 0) {
    state = fold(state, bytes, whole, [](std::size_t, Vector) {});
  }
  return hardware(state, bytes + whole, size - whole);
}

std::uint32_t folded_copy(
    std::uint32_t state,
    std::byte* to,
    const std::byte* from,
    std::size_t size) {
  const std::size_t whole = size / stretch * stretch;
  if (whole > 0) {
    state = fold(state, from, whole, [to](std::size_t at, Vector vector) {
      std::memcpy(to + at, &vector, sizeof vector);
    });
  }
  return hardware_copy(state, to + whole, from + whole, size - whole);
}

} // namespace cairn::base::crc32c_detail

#endif
