#pragma once

#include <cstdint>
#include <span>

// Measures of predictions against labels, with the values of scikit-learn and
// SciPy.

namespace cairn::evaluate {

/// How often class 1 was predicted and was right.
struct BinaryCounts {
  std::int64_t true_positive = 0;
  std::int64_t false_positive = 0;
  std::int64_t false_negative = 0;
  std::int64_t true_negative = 0;

  static BinaryCounts of(
      std::span<const std::int64_t> predicted,
      std::span<const std::int64_t> labels);
};

/// sklearn.metrics.f1_score; 0 where class 1 is neither predicted nor right.
double f1_score(const BinaryCounts& counts);

/// sklearn.metrics.matthews_corrcoef of two classes; 0 where all predictions,
/// or all labels, are one class.
double matthews_correlation(const BinaryCounts& counts);

/// scipy.stats.pearsonr; not a number where all of x or all of y are equal.
double pearson_correlation(
    std::span<const double> x,
    std::span<const double> y);

/// scipy.stats.spearmanr: Pearson's correlation of the ranks. Equal values
/// share the mean of their ranks.
double spearman_correlation(
    std::span<const double> x,
    std::span<const double> y);

} // namespace cairn::evaluate
