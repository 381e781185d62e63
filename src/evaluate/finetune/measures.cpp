#include "evaluate/finetune/measures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace cairn::evaluate {
namespace {

double mean_of(std::span<const double> x) {
  return std::accumulate(x.begin(), x.end(), 0.0) /
      static_cast<double>(x.size());
}

/// Ranks counted from 1; equal values share the mean of their ranks.
std::vector<double> ranks_of(std::span<const double> x) {
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return x[i]; });
  std::vector<double> ranks(x.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && x[order[end]] == x[order[begin]]) {
      ++end;
    }
    for (std::size_t i = begin; i < end; ++i) {
      ranks[order[i]] = (static_cast<double>(begin + end) + 1) / 2;
    }
    begin = end;
  }
  return ranks;
}

} // namespace

BinaryCounts BinaryCounts::of(
    std::span<const std::int64_t> predicted,
    std::span<const std::int64_t> labels) {
  BinaryCounts counts;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (predicted[i] == 1) {
      ++(labels[i] == 1 ? counts.true_positive : counts.false_positive);
    } else {
      ++(labels[i] == 1 ? counts.false_negative : counts.true_negative);
    }
  }
  return counts;
}

double f1_score(const BinaryCounts& counts) {
  const auto twice = static_cast<double>(2 * counts.true_positive);
  const double all = twice +
      static_cast<double>(counts.false_positive + counts.false_negative);
  return all == 0 ? 0 : twice / all;
}

double matthews_correlation(const BinaryCounts& counts) {
  const auto tp = static_cast<double>(counts.true_positive);
  const auto fp = static_cast<double>(counts.false_positive);
  const auto fn = static_cast<double>(counts.false_negative);
  const auto tn = static_cast<double>(counts.true_negative);
  const double spread = std::sqrt(tp + fp) * std::sqrt(tp + fn) *
      std::sqrt(tn + fp) * std::sqrt(tn + fn);
  return spread == 0 ? 0 : (tp * tn - fp * fn) / spread;
}

double pearson_correlation(
    std::span<const double> x,
    std::span<const double> y) {
  if (x.size() < 2) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double x_mean = mean_of(x);
  const double y_mean = mean_of(y);
  double both = 0;
  double x_square = 0;
  double y_square = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = x[i] - x_mean;
    const double dy = y[i] - y_mean;
    both += dx * dy;
    x_square += dx * dx;
    y_square += dy * dy;
  }
  if (x_square == 0 || y_square == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return std::clamp(
      both / std::sqrt(x_square) / std::sqrt(y_square),
      -1.0,
      1.0);
}

double spearman_correlation(
    std::span<const double> x,
    std::span<const double> y) {
  return pearson_correlation(ranks_of(x), ranks_of(y));
}

} // namespace cairn::evaluate
