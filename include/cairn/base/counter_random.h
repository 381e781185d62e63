#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cairn {

/// Random numbers that depend on nothing but (seed, stream name, index): a
/// parameter's element 12345 starts alike whatever slice of it a rank owns, on
/// whatever architecture, in whatever order it is asked for.
///
///   const CounterRandom random(seed, "decoder.layers.3.mlp.weight");
///   random.fill_normal(first_element_of_my_slice, slice);
///
/// Each member function is one sequence over the index. Sequences of one stream
/// share their bits, so what must be independent takes another stream name.
///
/// Floating-point results are the same bits everywhere: only operations that
/// IEEE 754 rounds exactly (+ - * / sqrt), in a fixed order, in a file compiled
/// without fused multiply-add; logarithm and sine are written out there because
/// C libraries differ in the last bit.
class CounterRandom {
 public:
  CounterRandom(std::uint64_t seed, std::string_view stream);

  std::uint32_t bits(std::uint64_t index) const;

  /// In [0, 1), a multiple of 2^-24.
  float uniform_float(std::uint64_t index) const;

  /// In [0, 1), a multiple of 2^-53.
  double uniform(std::uint64_t index) const;

  /// Mean 0, standard deviation 1 (Box-Muller); at most 8.6 from zero.
  double normal(std::uint64_t index) const;

  /// In [0, bound); `bound` must not be 0. Off from even by less than
  /// bound / 2^64: no draw is ever thrown away, which would shift the others.
  std::uint64_t below(std::uint64_t bound, std::uint64_t index) const;

  /// out[i] = uniform_float(first + i)
  void fill_uniform(std::uint64_t first, std::span<float> out) const;

  /// out[i] = float(normal(first + i)), at half the price of asking one by one.
  void fill_normal(std::uint64_t first, std::span<float> out) const;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
};

} // namespace cairn
