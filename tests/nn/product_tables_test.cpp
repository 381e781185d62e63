// The products of every instruction set that this machine has, and what is
// built on them, against sums in double.
#include "kernels/internal/cpu/product_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace cairn::kernels::cpu::product_tables_test {
namespace {

using Values = std::vector<float>;

Values values(std::int64_t count, float size = 1) {
  static std::mt19937 random(7);
  std::uniform_real_distribution<float> some(-size, size);
  Values all(count);
  for (float& each : all) {
    each = some(random);
  }
  return all;
}

class ProductTables : public ::testing::TestWithParam<const ProductTable*> {
 protected:
  const ProductTable& table() const { return *GetParam(); }
};

/// Sizes around those of tiles and blocks, and with one or no row.
TEST_P(ProductTables, Multiply) {
  const std::vector<ProductShape> shapes{
      {64, 64, 64},
      {17, 50, 33},
      {1, 7, 600},
      {130, 770, 3},
      {12, 32, 256},
      {251, 33, 9},
      {5, 1, 0}};
  for (const ProductShape& s : shapes) {
    const Values left = values(s.rows * s.depth);
    const Values right = values(s.depth * s.columns);
    const Values bias = values(s.columns);
    for (const bool turned : {false, true}) {
      const Matrix a = turned ? Matrix{left.data(), 1, s.rows}
                              : Matrix{left.data(), s.depth, 1};
      const Matrix b = turned ? Matrix{right.data(), 1, s.depth}
                              : Matrix{right.data(), s.columns, 1};
      Values sums = values(s.rows * s.columns);
      const Values before = sums;
      ProductResult into{.data = sums.data(), .row_step = s.columns};
      turned ? void(into.add = true) : void(into.bias = bias.data());
      table().multiply(s, {0, s.rows, 0, s.columns}, a, b, into, {});
      for (std::int64_t i = 0; i < s.rows; ++i) {
        for (std::int64_t j = 0; j < s.columns; ++j) {
          const std::int64_t at = i * s.columns + j;
          double sum = turned ? before[at] : bias[j];
          for (std::int64_t d = 0; d < s.depth; ++d) {
            sum += static_cast<double>(
                       a.data[i * a.row_step + d * a.column_step]) *
                b.data[d * b.row_step + j * b.column_step];
          }
          ASSERT_NEAR(sums[at], sum, 1e-4)
              << s.rows << " x " << s.depth << " x " << s.columns << " at " << i
              << ", " << j;
        }
      }
    }
  }
}

TEST_P(ProductTables, Gelu) {
  constexpr double root = 0.7978845608;
  for (const std::int64_t count : {1, 63, 1000}) {
    Values x = values(count, 9);
    x[0] = -200;
    x[count / 2] = 90;
    Values y(count);
    Values slope(count);
    table().gelu(Gelu::tanh, x.data(), y.data(), slope.data(), count);
    for (std::int64_t i = 0; i < count; ++i) {
      const double v = x[i];
      const double t = std::tanh(root * (v + 0.044715 * v * v * v));
      const double d = 0.5 * (1 + t) +
          0.5 * v * (1 - t * t) * root * (1 + 3 * 0.044715 * v * v);
      ASSERT_NEAR(y[i], 0.5 * v * (1 + t), 2e-6 * (1 + std::abs(v))) << v;
      ASSERT_NEAR(slope[i], d, 4e-6) << v;
    }
    table().gelu(Gelu::exact, x.data(), y.data(), slope.data(), count);
    for (std::int64_t i = 0; i < count; ++i) {
      const double v = x[i];
      const double below = 0.5 * std::erfc(-v / std::sqrt(2.0));
      const double density = std::exp(-v * v / 2) / std::sqrt(2 * M_PI);
      ASSERT_NEAR(y[i], v * below, 2e-6 * (1 + std::abs(v))) << v;
      ASSERT_NEAR(slope[i], below + v * density, 4e-6) << v;
    }
  }
}

/// Rows with and without room behind the last value that is seen.
TEST_P(ProductTables, ScoreRows) {
  for (const std::int64_t count : {1, 5, 64, 200}) {
    for (const std::int64_t seen : {count, count / 2}) {
      Values x = values(count, 9);
      const Values before = x;
      const float highest = table().highest_of(x.data(), seen);
      const float sum =
          table().exponentials(x.data(), seen, count, 0.5F, 0.5F * highest);
      double total = 0;
      float top = -std::numeric_limits<float>::infinity();
      for (std::int64_t i = 0; i < count; ++i) {
        const double e = i < seen ? std::exp(0.5 * (before[i] - highest)) : 0;
        total += e;
        top = i < seen ? std::max(top, before[i]) : top;
        ASSERT_NEAR(x[i], e, 1e-6 * e + 1e-12);
      }
      EXPECT_EQ(highest, top);
      EXPECT_NEAR(sum, total, 1e-5 * total);
    }
  }
}

/// Attention of one head as its formula says, and gradients as differences.
TEST_P(ProductTables, Attention) {
  constexpr std::int64_t size = 20;
  for (const bool causal : {false, true}) {
    for (const std::int64_t length : {1, 7, 70}) {
      const HeadShape shape{length, length, size, 0.3F, causal};
      Values q = values(length * size);
      Values k = values(length * size);
      Values v = values(length * size);
      const Values gradient = values(length * size);
      const auto loss = [&] {
        double sum = 0;
        for (std::int64_t i = 0; i < length; ++i) {
          const std::int64_t seen = causal ? i + 1 : length;
          std::vector<double> e(seen);
          double total = 0;
          for (std::int64_t j = 0; j < seen; ++j) {
            double score = 0;
            for (std::int64_t d = 0; d < size; ++d) {
              score += static_cast<double>(q[i * size + d]) * k[j * size + d];
            }
            total += e[j] = std::exp(score * static_cast<double>(0.3F));
          }
          for (std::int64_t d = 0; d < size; ++d) {
            for (std::int64_t j = 0; j < seen; ++j) {
              sum += e[j] / total * v[j * size + d] * gradient[i * size + d];
            }
          }
        }
        return sum;
      };
      Values output(length * size);
      Values log_sum(length);
      const HeadInput input{
          {q.data(), size},
          {k.data(), size},
          {v.data(), size}};
      table().attend_head(shape, input, {output.data(), size}, log_sum.data());
      double ours = 0;
      for (std::int64_t i = 0; i < length * size; ++i) {
        ours += static_cast<double>(output[i]) * gradient[i];
      }
      EXPECT_NEAR(ours, loss(), 1e-4);

      Values of_q(length * size);
      Values of_k(length * size);
      Values of_v(length * size);
      table().attend_head_backward(
          shape,
          input,
          {output.data(), size},
          {gradient.data(), size},
          log_sum.data(),
          {{of_q.data(), size}, {of_k.data(), size}, {of_v.data(), size}});
      for (auto [x, of_x] : {std::pair{&q, &of_q}, {&k, &of_k}, {&v, &of_v}}) {
        for (const std::int64_t at : {std::int64_t{0}, length * size / 2}) {
          constexpr float step = 0.01F;
          float& moved = (*x)[at];
          const float before = moved;
          moved = before + step;
          const double above = loss();
          moved = before - step;
          const double below = loss();
          moved = before;
          EXPECT_NEAR((*of_x)[at], (above - below) / (2 * step), 2e-3)
              << "length " << length << " at " << at;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    ProductTables,
    ::testing::ValuesIn(runnable_product_tables()),
    [](const auto& each) { return each.param->name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProductTables);

} // namespace
} // namespace cairn::kernels::cpu::product_tables_test
