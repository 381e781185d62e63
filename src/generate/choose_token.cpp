#include "generate/choose_token.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace cairn::generate {
namespace {

std::size_t likeliest(std::span<const float> logits) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) {
      throw Error(
          {.what = "the model's scores are not finite",
           .remedy = "compute in fp32 or bf16 instead of fp16, or look at its "
                     "weights with `cairn checkpoint verify`"});
    }
    if (logits[i] > logits[best]) {
      best = i;
    }
  }
  if (logits.empty() || std::isinf(logits[best])) {
    throw Error({.what = "the model gives no token a chance"});
  }
  return best;
}

/// The least logit of the `count` largest.
float least_of(std::span<const float> logits, std::size_t count) {
  std::vector<float> sorted(logits.begin(), logits.end());
  const auto last = sorted.begin() + static_cast<std::ptrdiff_t>(count) - 1;
  std::ranges::nth_element(sorted, last, std::greater<>());
  return *last;
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
  Candidates kept;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) {
      kept.ids.push_back(static_cast<std::int64_t>(i));
    }
  }
  const auto logit = [&](std::int64_t id) {
    return logits[static_cast<std::size_t>(id)];
  };
  const bool by_sum = sampling.top_p > 0 && sampling.top_p < 1;
  if (by_sum) {
    std::ranges::stable_sort(kept.ids, std::greater<>(), logit);
  }
  const double top = logits[best];
  kept.sums.resize(kept.ids.size());
  std::transform_inclusive_scan(
      kept.ids.begin(),
      kept.ids.end(),
      kept.sums.begin(),
      std::plus<>(),
      [&](std::int64_t id) {
        return std::exp((logit(id) - top) / sampling.temperature);
      });
  if (by_sum) {
    const auto above =
        std::ranges::upper_bound(kept.sums, sampling.top_p * kept.sums.back());
    if (above != kept.sums.end()) {
      kept.sums.erase(above + 1, kept.sums.end());
      kept.ids.resize(kept.sums.size());
    }
  }
  return kept;
}

std::int64_t choose_token(
    std::span<const float> logits,
    const Sampling& sampling,
    double chance) {
  const Candidates kept = candidates(logits, sampling);
  const auto chosen =
      std::ranges::upper_bound(kept.sums, chance * kept.sums.back());
  // Rounding may give the whole sum, which nothing is above.
  const auto index = std::min<std::size_t>(
      static_cast<std::size_t>(chosen - kept.sums.begin()),
      kept.ids.size() - 1);
  return kept.ids[index];
}

} // namespace cairn::generate
