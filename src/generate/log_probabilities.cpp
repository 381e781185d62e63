#include "generate/log_probabilities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cairn::generate {

double log_sum_of_exponentials(std::span<const float> scores) {
  const float top = *std::ranges::max_element(scores);
  double sum = 0;
  for (const float score : scores) {
    sum += static_cast<double>(std::exp(score - top));
  }
  return static_cast<double>(top) + std::log(sum);
}

std::vector<std::int64_t> highest(std::span<const float> scores, int count) {
  std::vector<std::int64_t> ids(scores.size());
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  const auto end =
      ids.begin() + std::min<std::ptrdiff_t>(count, std::ssize(ids));
  std::partial_sort(ids.begin(), end, ids.end(), [&](auto a, auto b) {
    const float of_a = scores[static_cast<std::size_t>(a)];
    const float of_b = scores[static_cast<std::size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  ids.erase(end, ids.end());
  return ids;
}

ScoredToken scored_token(
    std::span<const float> scores,
    std::int64_t id,
    int likeliest,
    std::optional<double> log_sum) {
  const double all = log_sum ? *log_sum : log_sum_of_exponentials(scores);
  const auto log_probability = [&](std::int64_t token) {
    return static_cast<float>(
        static_cast<double>(scores[static_cast<std::size_t>(token)]) - all);
  };
  ScoredToken result{id, log_probability(id)};
  if (likeliest > 0) {
    for (const std::int64_t token : highest(scores, likeliest)) {
      result.likeliest.emplace_back(token, log_probability(token));
    }
  }
  return result;
}

} // namespace cairn::generate
