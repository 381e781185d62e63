#include "base/internal/numpy_random.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace cairn::inline base {
namespace {

constexpr std::size_t length = 624;

std::uint32_t temper(std::uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680;
  y ^= (y << 15) & 0xefc60000;
  return y ^ (y >> 18);
}

} // namespace

NumpyRandom::NumpyRandom(std::uint32_t seed) {
  seed_key(seed);
}

NumpyRandom::NumpyRandom(std::span<const std::uint32_t> seed) {
  if (seed.empty()) {
    throw ConfigError(
        {.what = "a random generator needs a seed, and got none"});
  }
  // Matsumoto and Nishimura's init_by_array.
  seed_key(19650218);
  auto& key = state_.key;
  std::size_t i = 1;
  const auto mixed = [&](std::uint32_t factor) {
    return key[i] ^ ((key[i - 1] ^ (key[i - 1] >> 30)) * factor);
  };
  const auto advance = [&] {
    if (++i == length) {
      key[0] = key[length - 1];
      i = 1;
    }
  };
  for (std::size_t k = 0; k < std::max(length, seed.size()); ++k) {
    const std::size_t j = k % seed.size();
    key[i] = mixed(1664525) + seed[j] + static_cast<std::uint32_t>(j);
    advance();
  }
  for (std::size_t k = 1; k < length; ++k) {
    key[i] = mixed(1566083941) - static_cast<std::uint32_t>(i);
    advance();
  }
  key[0] = 0x80000000;
}

void NumpyRandom::seed_key(std::uint32_t seed) {
  for (std::size_t i = 0; i < length; ++i) {
    state_.key[i] = seed;
    seed =
        1812433253 * (seed ^ (seed >> 30)) + static_cast<std::uint32_t>(i + 1);
  }
}

void NumpyRandom::set_state(const State& state) {
  if (state.position < 0 || state.position > static_cast<int>(length)) {
    throw CheckpointError(
        {.what = "the stored state of a random generator is broken",
         .values = fmt::format(
             "its position is {}, not within 0 and {}",
             state.position,
             length)});
  }
  state_ = state;
}

void NumpyRandom::next_key() {
  constexpr std::size_t middle = 397;
  std::uint32_t* const key = state_.key.data();
  const auto twist = [](std::uint32_t a, std::uint32_t b, std::uint32_t far) {
    const std::uint32_t y = (a & 0x80000000) | (b & 0x7fffffff);
    return far ^ (y >> 1) ^ ((0 - (y & 1)) & 0x9908b0df);
  };
  // Three loops instead of one with an index modulo `length`: the compiler
  // vectorises these.
  std::size_t i = 0;
  for (; i < length - middle; ++i) {
    key[i] = twist(key[i], key[i + 1], key[i + middle]);
  }
  for (; i < length - 1; ++i) {
    key[i] = twist(key[i], key[i + 1], key[i + middle - length]);
  }
  key[i] = twist(key[i], key[0], key[middle - 1]);
  state_.position = 0;
}

std::uint32_t NumpyRandom::bits32() {
  if (state_.position == static_cast<int>(length)) {
    next_key();
  }
  return temper(state_.key[static_cast<std::size_t>(state_.position++)]);
}

std::uint64_t NumpyRandom::bits64() {
  const std::uint64_t high = bits32();
  return (high << 32) | bits32();
}

double NumpyRandom::random_sample() {
  const std::uint32_t high = bits32() >> 5;
  const std::uint32_t low = bits32() >> 6;
  return (high * 67108864.0 + low) / 9007199254740992.0;
}

std::uint64_t NumpyRandom::interval(std::uint64_t most) {
  if (most == 0) {
    return 0;
  }
  const std::uint64_t mask =
      std::numeric_limits<std::uint64_t>::max() >> std::countl_zero(most);
  const bool narrow = most <= std::numeric_limits<std::uint32_t>::max();
  for (;;) {
    const std::uint64_t value = (narrow ? bits32() : bits64()) & mask;
    if (value <= most) {
      return value;
    }
  }
}

void NumpyRandom::draw_partners(
    std::size_t first,
    std::span<std::uint32_t> out) {
  std::array<std::uint32_t, 256> words;
  for (std::size_t done = 0; done < out.size();) {
    if (state_.position == static_cast<int>(length)) {
      next_key();
    }
    const auto position = static_cast<std::size_t>(state_.position);
    const auto most = static_cast<std::uint32_t>(first - done);
    const std::uint32_t half = std::bit_floor(most);
    // The count of words is limited so that all of them are used up and the
    // same mask holds for all.
    const std::size_t count = std::min(
        {out.size() - done,
         words.size(),
         length - position,
         std::size_t{most - half} + 1});
    const std::uint32_t mask = half | (half - 1);
    for (std::size_t i = 0; i < count; ++i) {
      words[i] = temper(state_.key[position + i]) & mask;
    }
    state_.position += static_cast<int>(count);
    // The acceptance of a word is unpredictable, so this counts instead of
    // branching.
    for (std::size_t i = 0; i < count; ++i) {
      out[done] = words[i];
      done += words[i] <= first - done ? 1 : 0;
    }
  }
}

void NumpyRandom::skip_shuffle(std::size_t count) {
  std::size_t last = count == 0 ? 0 : count - 1;
  for (; last > std::numeric_limits<std::uint32_t>::max(); --last) {
    interval(last);
  }
  std::array<std::uint32_t, 512> partners;
  while (last > 0) {
    const std::size_t fresh = std::min(last, partners.size());
    draw_partners(last, std::span(partners).first(fresh));
    last -= fresh;
  }
}

std::int64_t NumpyRandom::randint(std::int64_t low, std::int64_t high) {
  if (low >= high) {
    throw ConfigError(
        {.what = "no whole number to choose from",
         .values = fmt::format("low {}, high {}", low, high)});
  }
  // Unsigned, since the range may be wider than a signed number holds.
  const auto first = static_cast<std::uint64_t>(low);
  const std::uint64_t most = static_cast<std::uint64_t>(high) - first - 1;
  return static_cast<std::int64_t>(first + interval(most));
}

double NumpyRandom::standard_normal() {
  if (state_.has_gauss) {
    const double value = state_.cached_gauss;
    state_.has_gauss = false;
    state_.cached_gauss = 0.0;
    return value;
  }
  // Marsaglia's polar method gives two samples at once.
  for (;;) {
    const double x = 2.0 * random_sample() - 1.0;
    const double y = 2.0 * random_sample() - 1.0;
    const double square = x * x + y * y;
    if (square < 1.0 && square != 0.0) {
      const double scale = std::sqrt(-2.0 * std::log(square) / square);
      state_.cached_gauss = scale * x;
      state_.has_gauss = true;
      return scale * y;
    }
  }
}

double NumpyRandom::normal(double mean, double deviation) {
  return mean + deviation * standard_normal();
}

std::vector<std::int64_t> NumpyRandom::permutation(std::size_t count) {
  std::vector<std::int64_t> order(count);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  shuffle(std::span(order));
  return order;
}

std::vector<std::int64_t> NumpyRandom::choice(
    std::size_t population,
    std::size_t count,
    Replacement replacement) {
  if (replacement == Replacement::with) {
    return randint<std::int64_t>(
        0,
        static_cast<std::int64_t>(population),
        count);
  }
  if (count > population) {
    throw ConfigError(
        {.what = "cannot choose so many without replacement",
         .values = fmt::format("{} of {}", count, population)});
  }
  std::vector<std::int64_t> order = permutation(population);
  order.resize(count);
  return order;
}

std::size_t NumpyRandom::choice(std::span<const double> probabilities) {
  if (probabilities.empty()) {
    throw ConfigError({.what = "cannot choose among no probabilities"});
  }
  double total = 0.0;
  for (const double probability : probabilities) {
    total += probability;
  }
  // Divides the running sum as numpy does. Multiplying `drawn` by the total
  // instead would round differently and sometimes give another answer.
  const double drawn = random_sample();
  double sum = 0.0;
  std::size_t place = 0;
  for (; place + 1 < probabilities.size(); ++place) {
    sum += probabilities[place];
    if (sum / total > drawn) {
      break;
    }
  }
  return place;
}

std::int64_t NumpyRandom::geometric(double probability) {
  if (!(probability > 0.0 && probability <= 1.0)) {
    throw ConfigError(
        {.what = "a geometric distribution needs a probability above 0 and at "
                 "most 1",
         .values = fmt::format("{}", probability)});
  }
  const double drawn = random_sample();
  if (probability >= 0.333333333333333333333333) {
    double term = probability;
    double sum = probability;
    std::int64_t trial = 1;
    // `sum` stops growing once the terms vanish, which may be below the largest
    // `drawn`.
    for (; drawn > sum && term > 0.0; ++trial) {
      term *= 1.0 - probability;
      sum += term;
    }
    return trial;
  }
  const double trial =
      std::ceil(std::log1p(-drawn) / std::log(1.0 - probability));
  // The largest integer is returned where 1 - p rounds to 1: numpy's cast
  // overflows there.
  constexpr double limit = 9.2e18;
  return std::isfinite(trial) && trial < limit
      ? std::max<std::int64_t>(1, static_cast<std::int64_t>(trial))
      : std::numeric_limits<std::int64_t>::max();
}

} // namespace cairn::base
