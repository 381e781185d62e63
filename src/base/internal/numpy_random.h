#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace cairn::inline base {

/// numpy.random.RandomState, number for number: MT19937 with numpy's legacy
/// ways of turning its words into samples and permutations. Megatron's data
/// order comes from it, so ours must too; for anything new use CounterRandom.
///
/// The normal and geometric samples take their logarithm from the C library, as
/// numpy's do, so they are exact only when both run with the same C library.
/// Everything else is exact.
class NumpyRandom {
 public:
  /// The state that numpy's get_state() returns.
  struct State {
    std::array<std::uint32_t, 624> key{};
    /// Index in `key` of the next word; 624 means that new words must be made
    /// first.
    int position = 624;
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
  /// Throws CheckpointError for a state that numpy cannot produce.
  void set_state(const State& state);

  std::uint32_t bits32();
  std::uint64_t bits64();

  /// Uniform in [0, 1), with 53 bits.
  double random_sample();

  /// Uniform in [low, high), which must not be empty. Equals numpy's result for
  /// int32 and for int64.
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

  /// Shuffles in place. Put a large array on huge pages (LargeBuffer): most of
  /// the time goes into finding its pages.
  template <typename T>
  void shuffle(std::span<T> values) {
    using std::swap;
    constexpr std::size_t narrow = std::numeric_limits<std::uint32_t>::max();
    std::size_t last = values.empty() ? 0 : values.size() - 1;
    for (; last > narrow; --last) {
      swap(values[last], values[interval(last)]);
    }
    // Partners are drawn ahead of the swaps, so that the prefetched elements of
    // a large array have arrived from memory when their swap comes.
    constexpr std::size_t ahead = 32;
    std::array<std::uint32_t, 256 + ahead> partners;
    std::size_t waiting = 0;    // partners drawn and not yet used
    std::size_t undrawn = last; // positions 1 to undrawn have no partner yet
    while (waiting + undrawn > 0) {
      const std::size_t fresh = std::min(undrawn, partners.size() - waiting);
      draw_partners(undrawn, std::span(partners).subspan(waiting, fresh));
      undrawn -= fresh;
      waiting += fresh;
      const std::size_t ready = undrawn == 0 ? waiting : waiting - ahead;
      for (std::size_t k = 0; k < ready; ++k) {
        T* coming = &values[partners[std::min(k + ahead, waiting - 1)]];
        // Neoverse cores ignore a prefetch whose address is the sum of two
        // registers; this forces the address into one register.
        asm("" : "+r"(coming));
        __builtin_prefetch(coming, 1);
        swap(values[last--], values[partners[k]]);
      }
      std::copy(
          partners.begin() + static_cast<std::ptrdiff_t>(ready),
          partners.begin() + static_cast<std::ptrdiff_t>(waiting),
          partners.begin());
      waiting -= ready;
    }
  }

  /// Draws exactly what shuffle() of `count` values would draw. Gives the state
  /// after a shuffle without waiting for the shuffle itself.
  void skip_shuffle(std::size_t count);

  /// permutation(count): 0 to count - 1 in random order.
  std::vector<std::int64_t> permutation(std::size_t count);

  /// choice(population, count, replace)
  std::vector<std::int64_t> choice(
      std::size_t population,
      std::size_t count,
      Replacement replacement);

  /// choice(len(p), p=p): an index into `probabilities`, which must not be
  /// empty and must sum to 1 except for rounding.
  std::size_t choice(std::span<const double> probabilities);

  /// geometric(p): the number of trials up to and including the first success.
  /// `probability` of a success must be above 0 and at most 1.
  std::int64_t geometric(double probability);

 private:
  /// Uniform in [0, most].
  std::uint64_t interval(std::uint64_t most);
  /// out[k] = interval(first - k). `first` must fit in 32 bits and be at least
  /// out.size().
  void draw_partners(std::size_t first, std::span<std::uint32_t> out);
  void seed_key(std::uint32_t seed);
  void next_key();

  State state_;
};

} // namespace cairn::base
