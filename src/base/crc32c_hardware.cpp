#include "base/crc32c_kernel.h"
#include "base/crc32c_polynomial.h"

#include <cstring>

namespace cairn::inline base::crc32c_detail {
namespace {

// Assembly rather than intrinsics: an intrinsic needs this file, or every
// function down to here, compiled for a CPU that the machine may not have.
#if defined(__x86_64__)

std::uint32_t add_word(std::uint32_t state, std::uint64_t word) {
  std::uint64_t wide = state;
  asm("crc32q %1, %0" : "+r"(wide) : "rm"(word));
  return static_cast<std::uint32_t>(wide);
}

std::uint32_t add_byte(std::uint32_t state, std::byte byte) {
  asm("crc32b %1, %0" : "+r"(state) : "qm"(byte));
  return state;
}

#elif defined(__aarch64__)

std::uint32_t add_word(std::uint32_t state, std::uint64_t word) {
  asm(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(state) : "r"(word));
  return state;
}

std::uint32_t add_byte(std::uint32_t state, std::byte byte) {
  asm(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1"
      : "+r"(state)
      : "r"(static_cast<std::uint32_t>(byte)));
  return state;
}

#else
#error "Cairn is for x86_64 and aarch64"
#endif

std::uint64_t load(const std::byte* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

/// Sums three stretches of `stride` bytes at the same time and joins the sums:
/// the instruction has a latency of two or three cycles, but one can start in
/// each cycle. `also` gets every word and its address.
template <std::size_t stride, typename Also>
std::uint32_t in_threes(
    std::uint32_t state,
    const std::byte*& bytes,
    std::size_t& size,
    const Also& also) {
  static_assert(stride % 8 == 0);
  static constexpr Table skip_one = multiplication_table(zero_bytes(stride));
  while (size >= 3 * stride) {
    std::uint32_t second = 0;
    std::uint32_t third = 0;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < stride; i += 8) {
      const std::uint64_t words[] = {
          load(bytes + i),
          load(bytes + stride + i),
          load(bytes + 2 * stride + i)};
      state = add_word(state, words[0]);
      second = add_word(second, words[1]);
      third = add_word(third, words[2]);
      also(bytes + i, words[0]);
      also(bytes + stride + i, words[1]);
      also(bytes + 2 * stride + i, words[2]);
    }
    state = times(skip_one, times(skip_one, state) ^ second) ^ third;
    bytes += 3 * stride;
    size -= 3 * stride;
  }
  return state;
}

} // namespace

std::uint32_t hardware(
    std::uint32_t state,
    const std::byte* bytes,
    std::size_t size) {
  const auto nothing = [](const std::byte*, std::uint64_t) {};
  state = in_threes<4096>(state, bytes, size, nothing);
  state = in_threes<128>(state, bytes, size, nothing);
  for (; size >= 8; bytes += 8, size -= 8) {
    state = add_word(state, load(bytes));
  }
  for (; size > 0; ++bytes, --size) {
    state = add_byte(state, *bytes);
  }
  return state;
}

std::uint32_t hardware_copy(
    std::uint32_t state,
    std::byte* to,
    const std::byte* from,
    std::size_t size) {
  const auto copy = [to, from](const std::byte* at, std::uint64_t word) {
    std::memcpy(to + (at - from), &word, sizeof word);
  };
  const std::byte* at = from;
  // When copying, stretches of 512 bytes are faster than stretches of 4096.
  state = in_threes<512>(state, at, size, copy);
  if (size > 0) {
    std::memcpy(to + (at - from), at, size);
  }
  return hardware(state, at, size);
}

} // namespace cairn::base::crc32c_detail
