#include "generate/choose_token.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace cairn::generate {
namespace {

void check_finite(float score) {
  if (std::isnan(score) || score == INFINITY) {
    throw Error(
        {.what = "the model's scores are not finite",
         .remedy = "compute in fp32 or bf16 instead of fp16, or look at its "
                   "weights with `cairn checkpoint verify`"});
  }
}

void check_chance(bool some) {
  if (!some) {
    throw Error({.what = "the model gives no token a chance"});
  }
}

std::size_t likeliest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    check_finite(logits[i]);
    if (logits[i] > logits[best]) {
      best = i;
    }
  }
  check_chance(!logits.empty() && !std::isinf(logits[best]));
  return best;
}

/// The smallest of the `count` largest logits.
float least_of(std::span<const float> logits, std::size_t count) {
  std::vector<float> sorted(logits.begin(), logits.end());
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::ranges::nth_element(sorted, last, std::greater<>());
  return *last;
}

struct Weighed {
  double weight;
  float score;
  std::int64_t id;
};

/// By score: weights of two scores may round to the same number.
bool heavier(const Weighed& a, const Weighed& b) {
  return a.score != b.score ? a.score > b.score : a.id < b.id;
}

/// A number whose order among unsigned ones is the opposite of the score's.
std::uint32_t lightness(const Weighed& each) {
  const auto bits =
      std::bit_cast<std::uint32_t>(each.score == 0 ? 0.F : each.score);
  return bits >> 31 != 0 ? bits : ~bits & 0x7fffffffU;
}

/// Sorts by weight, the heaviest first, and leaves equal ones in their order:
/// several times faster than comparisons for a whole vocabulary.
void sort_by_digits(std::vector<Weighed>& all) {
  constexpr std::size_t digits = 1 << 11;
  std::vector<Weighed> sorted(all.size());
  for (int shift = 0; shift < 32; shift += 11) {
    const auto digit = [&](const Weighed& each) {
      return static_cast<std::size_t>(lightness(each) >> shift) % digits;
    };
    std::array<std::size_t, digits> places{};
    for (const Weighed& each : all) {
      ++places[digit(each)];
    }
    if (places[digit(all[0])] == all.size()) {
      continue; // all have this digit
    }
    std::exclusive_scan(
        places.begin(),
        places.end(),
        places.begin(),
        std::size_t{0});
    for (const Weighed& each : all) {
      sorted[places[digit(each)]++] = each;
    }
    all.swap(sorted);
  }
}

/// Keeps the heaviest up to the first that takes their sum above `limit`,
/// sorted. They are mostly few, so no more are sorted than needed. Ids ascend.
void keep_sum(std::vector<Weighed>& all, double limit) {
  const auto keeps = [limit](std::vector<Weighed>& sorted) {
    double sum = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      sum += sorted[i].weight;
      if (sum > limit) {
        sorted.resize(i + 1);
        return true;
      }
    }
    return false;
  };
  for (const std::size_t count : {std::size_t{64}, std::size_t{1024}}) {
    if (count < all.size()) {
      std::vector<Weighed> first(count);
      std::partial_sort_copy(
          all.begin(),
          all.end(),
          first.begin(),
          first.end(),
          heavier);
      if (keeps(first)) {
        all = std::move(first);
        return;
      }
    }
  }
  sort_by_digits(all);
  keeps(all);
}

} // namespace

Candidates candidates(std::span<const float> logits, const Sampling& sampling) {
  const std::size_t best = likeliest(logits);
  const auto most = static_cast<std::size_t>(sampling.top_k);
  if (sampling.greedy || most == 1) {
    return {{static_cast<std::int64_t>(best)}, {1}};
  }
  const float least =
      most > 0 && most < logits.size() ? least_of(logits, most) : -INFINITY;
  std::vector<Weighed> kept;
  double sum = 0;
  const double top = logits[best];
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) {
      kept.push_back(
          {std::exp((logits[i] - top) / sampling.temperature),
           logits[i],
           static_cast<std::int64_t>(i)});
      sum += kept.back().weight;
    }
  }
  if (sampling.top_p > 0 && sampling.top_p < 1) {
    keep_sum(kept, sampling.top_p * sum);
  }
  Candidates result;
  sum = 0;
  for (const Weighed& each : kept) {
    result.ids.push_back(each.id);
    result.sums.push_back(sum += each.weight);
  }
  return result;
}

std::int64_t likeliest_token(const Peak& peak) {
  check_finite(peak.score);
  check_chance(!std::isinf(peak.score));
  return peak.token;
}

std::int64_t choose_token(
    std::span<const float> logits,
    const Sampling& sampling,
    double chance) {
  const Candidates kept = candidates(logits, sampling);
  const auto chosen =
      std::ranges::upper_bound(kept.sums, chance * kept.sums.back());
  // Rounding may give the whole sum, which no entry is above.
  const auto index = std::min<std::size_t>(
      static_cast<std::size_t>(chosen - kept.sums.begin()),
      kept.ids.size() - 1);
  return kept.ids[index];
}

} // namespace cairn::generate
