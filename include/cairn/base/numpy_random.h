#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cairn {

/// numpy.random.RandomState, number for number: MT19937 with numpy's legacy
/// ways of turning its words into samples and orders. The peers' data order
/// comes from it, so ours must too; for anything new use CounterRandom.
///
/// The normal samples take their logarithm from the C library, as numpy's do,
/// so they are exact as far as both run with the same one; all else is exact.
class NumpyRandom {
 public:
  /// What get_state() returns.
  struct State {
    std::array<std::uint32_t, 624> key{};
    int position = 624; ///< in key, of the next word; 624: make new ones first
    bool has_gauss = false;
    double cached_gauss = 0.0;
    bool operator==(const State&) const = default;
  };

  enum class Replacement { with, without };

  /// RandomState(seed)
  explicit NumpyRandom(std::uint32_t seed);
  /// RandomState([a, b, ...]); `seed` must not be empty.
  explicit NumpyRandom(std::span<const std::uint32_t> seed);
  explicit NumpyRandom(const State& state) { set_state(state); }

  const State& state() const noexcept { return state_; }
  /// Throws CheckpointError for a state that cannot be one.
  void set_state(const State& state);

  std::uint32_t bits32();
  std::uint64_t bits64();

  /// In [0, 1), with 53 bits.
  double random_sample();

  /// In [low, high), which must hold a number; the same draws for numpy's int32
  /// and int64.
  std::int64_t randint(std::int64_t low, std::int64_t high);
  template <typename Int>
  std::vector<Int> randint(Int low, Int high, std::size_t count) {
    std::vector<Int> values(count);
    for (Int& value : values) {
      value = static_cast<Int>(randint(std::int64_t{low}, std::int64_t{high}));
    }
    return values;
  }

  double standard_normal();
  double normal(double mean, double deviation);

  template <typename T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) {
      using std::swap;
      swap(values[i], values[interval(i)]);
    }
  }

  /// permutation(count): 0 to count - 1 in random order.
  std::vector<std::int64_t> permutation(std::size_t count);

  /// choice(population, count, replace)
  std::vector<std::int64_t> choice(
      std::size_t population,
      std::size_t count,
      Replacement replacement);

 private:
  /// In [0, most].
  std::uint64_t interval(std::uint64_t most);
  void seed_key(std::uint32_t seed);
  void next_key();

  State state_;
};

} // namespace cairn
