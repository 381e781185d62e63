#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cairn::inline base {

/// Random numbers that depend on nothing but (seed, stream name, index).
/// Element 12345 of a parameter gets the same value whatever slice a rank owns,
/// on any architecture and in any order of calls.
///
///   const CounterRandom random(seed, "decoder.layers.3.mlp.weight");
///   random.fill_normal(first_element_of_my_slice, slice);
///
/// Each member function is one sequence over the index. The sequences of one
/// stream share their bits, so values that must be independent need different
/// stream names.
///
/// Floating-point results have the same bits everywhere: only operations that
/// IEEE 754 rounds exactly (+ - * / sqrt) are used, in a fixed order, in a file
/// compiled without fused multiply-add. Logarithm and sine are written out
/// there because C libraries differ in the last bit.
class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, std::string_view stream);

  std::uint32_t bits(std::uint64_t index) const;

  /// Uniform in [0, 1), a multiple of 2^-24.
  float uniform_float(std::uint64_t index) const;

  /// Uniform in [0, 1), a multiple of 2^-53.
  double uniform(std::uint64_t index) const;

  /// Normal with mean 0 and standard deviation 1 (Box-Muller); at most 8.6 from
  /// zero.
  double normal(std::uint64_t index) const;

  /// Uniform whole number in [0, bound); `bound` must not be 0. The bias is
  /// less than bound / 2^64. No draw is rejected, since that would shift the
  /// draws after it.
  std::uint64_t below(std::uint64_t bound, std::uint64_t index) const;

  /// out[i] = uniform_float(first + i)
  void fill_uniform(std::uint64_t first, std::span<float> out) const;

  /// out[i] = float(normal(first + i)), at half the cost of single calls.
  void fill_normal(std::uint64_t first, std::span<float> out) const;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

} // namespace cairn::base
