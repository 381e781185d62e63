#include "optim/internal/newton_schulz.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace cairn::optim::newton_schulz_test {
namespace {

std::vector<float> random_matrix(std::int64_t rows, std::int64_t columns) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> matrix(static_cast<std::size_t>(rows * columns));
  for (float& value : matrix) {
    value = normal(random);
  }
  return matrix;
}

struct Range {
  double low;
  double high;
};

/// The largest and the smallest eigenvalue that |X Xt v| = s |v| shows for some
/// vectors v on the short side: all lie between them.
Range stretches(
    const std::vector<float>& x,
    std::int64_t rows,
    std::int64_t columns) {
  double low = 1e9;
  double high = 0;
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<double> in(static_cast<std::size_t>(columns));
    double length = 0;
    // A vector for the short side of a tall matrix loses nothing.
    for (double& value : in) {
      value = normal(random);
      length += value * value;
    }
    double out = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < columns; ++j) {
        sum += x[static_cast<std::size_t>(i * columns + j)] *
            in[static_cast<std::size_t>(j)];
      }
      out += sum * sum;
    }
    low = std::min(low, std::sqrt(out / length));
    high = std::max(high, std::sqrt(out / length));
  }
  return {low, high};
}

TEST(Orthogonalise, BringsSingularValuesNearOne) {
  for (const auto method :
       {OrthogonalMethod::standard, OrthogonalMethod::gram}) {
    for (const auto& [rows, columns] :
         {std::pair{40, 8}, std::pair{16, 16}, std::pair{200, 3}}) {
      auto matrix = random_matrix(rows, columns);
      orthogonalise(matrix.data(), rows, columns, method);
      const auto [low, high] = stretches(matrix, rows, columns);
      EXPECT_GT(low, 0.5) << rows << " x " << columns;
      EXPECT_LT(high, 1.3) << rows << " x " << columns;
    }
  }
}

TEST(Orthogonalise, BothMethodsAgree) {
  for (const auto& [rows, columns] : {std::pair{7, 40}, std::pair{40, 7}}) {
    auto one = random_matrix(rows, columns);
    auto other = one;
    orthogonalise(one.data(), rows, columns, OrthogonalMethod::standard);
    orthogonalise(other.data(), rows, columns, OrthogonalMethod::gram);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(one[i], other[i], 1e-4);
    }
  }
}

TEST(Orthogonalise, OfOneNumberIsThePolynomial) {
  // A single singular value, scaled to one: five times the quintic.
  double expected = 1;
  for (int i = 0; i < 5; ++i) {
    const double square = expected * expected;
    expected *= 3.4445 + square * (-4.7750 + square * 2.0315);
  }
  float matrix = -17.F;
  orthogonalise(&matrix, 1, 1, OrthogonalMethod::standard);
  EXPECT_NEAR(matrix, -expected, 1e-5);
  float row[3] = {3.F, 0.F, 4.F};
  orthogonalise(row, 1, 3, OrthogonalMethod::gram);
  EXPECT_NEAR(row[0], 0.6 * expected, 1e-5);
  EXPECT_NEAR(row[2], 0.8 * expected, 1e-5);
}

TEST(Orthogonalise, OfNothingIsNothing) {
  std::vector<float> zero(12, 0.F);
  orthogonalise(zero.data(), 3, 4, OrthogonalMethod::gram);
  for (const float value : zero) {
    EXPECT_EQ(value, 0);
  }
}

} // namespace
} // namespace cairn::optim::newton_schulz_test
