// The decoder's kernels: every instruction set against the portable code, bit
// for bit, and against sums in fp64; rows alone against rows together.
#include "kernels/internal/cpu/decoder_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace cairn::kernels::cpu::decoder_rows_test {
namespace {

std::vector<float> numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(static_cast<std::size_t>(count));
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

/// A weight in one kind of numbers, and the same as fp64.
struct Weight {
  Weight(WeightNumbers kind, std::int64_t outputs, std::int64_t inputs)
      : factors(numbers(outputs, 7)) {
    const auto values = numbers(outputs * inputs, 8);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(values[i]) & 0xffff0000U;
      const auto small =
          static_cast<std::int8_t>(std::clamp(40 * values[i], -127.F, 127.F));
      wide.push_back(values[i]);
      half.push_back(static_cast<std::uint16_t>(bits >> 16U));
      byte.push_back(small);
      const double factor{factors[i / static_cast<std::size_t>(inputs)]};
      exact.push_back(
          kind == WeightNumbers::fp32       ? double{values[i]}
              : kind == WeightNumbers::bf16 ? double{std::bit_cast<float>(bits)}
                                            : small * factor);
    }
    matrix = {
        .data = kind == WeightNumbers::fp32
            ? static_cast<const void*>(wide.data())
            : kind == WeightNumbers::bf16
            ? static_cast<const void*>(half.data())
            : static_cast<const void*>(byte.data()),
        .numbers = kind,
        .factors = factors.data(),
        .inputs = inputs};
  }

  std::vector<float> factors;
  std::vector<float> wide;
  std::vector<std::uint16_t> half;
  std::vector<std::int8_t> byte;
  std::vector<double> exact;
  WeightMatrix matrix;
};

constexpr WeightNumbers kinds[] = {
    WeightNumbers::fp32,
    WeightNumbers::bf16,
    WeightNumbers::int8};

struct ProductShape {
  std::int64_t rows, inputs, outputs;
};
constexpr ProductShape shapes[] = {
    {1, 64, 40},
    {1, 5, 3},
    {2, 33, 9},
    {3, 48, 17},
    {7, 100, 21},
    {131, 19, 8}};

std::vector<float> product(
    const DecoderTable& table,
    const Weight& weight,
    const ProductShape& shape,
    const float* x,
    std::int64_t rows,
    bool adds) {
  const auto bias = numbers(shape.outputs, 3);
  std::vector<float> y(
      static_cast<std::size_t>(rows * shape.outputs),
      adds ? 0.5F : NAN);
  RowProduct whole{
      .x = x,
      .x_step = shape.inputs,
      .rows = rows,
      .weight = weight.matrix,
      .bias = bias.data(),
      .y = y.data(),
      .y_step = shape.outputs,
      .begin = 0,
      .end = shape.outputs / 2,
      .adds = adds};
  table.multiply(whole); // in two parts, as two threads would
  whole.begin = whole.end;
  whole.end = shape.outputs;
  table.multiply(whole);
  return y;
}

TEST(DecoderRows, ProductsAreTheSameWithEveryInstructionSetAndExact) {
  for (const WeightNumbers kind : kinds) {
    for (const ProductShape& shape : shapes) {
      const Weight weight(kind, shape.outputs, shape.inputs);
      const auto x = numbers(shape.rows * shape.inputs, 5);
      const auto bias = numbers(shape.outputs, 3);
      const auto expected = product(
          portable_decoder_table,
          weight,
          shape,
          x.data(),
          shape.rows,
          false);
      for (std::int64_t r = 0; r < shape.rows; ++r) {
        for (std::int64_t o = 0; o < shape.outputs; ++o) {
          double sum = bias[static_cast<std::size_t>(o)];
          double size = std::abs(sum);
          for (std::int64_t i = 0; i < shape.inputs; ++i) {
            const double term =
                double{x[static_cast<std::size_t>(r * shape.inputs + i)]} *
                weight.exact[static_cast<std::size_t>(o * shape.inputs + i)];
            sum += term;
            size += std::abs(term);
          }
          const auto at = static_cast<std::size_t>(r * shape.outputs + o);
          ASSERT_NEAR(expected[at], sum, 1e-6 * size);
        }
      }
      for (const DecoderTable* table : runnable_decoder_tables()) {
        EXPECT_EQ(
            product(*table, weight, shape, x.data(), shape.rows, false),
            expected)
            << table->name;
        const auto added =
            product(*table, weight, shape, x.data(), shape.rows, true);
        for (std::size_t i = 0; i < added.size(); ++i) {
          ASSERT_EQ(added[i], 0.5F + expected[i]) << table->name;
        }
      }
    }
  }
}

TEST(DecoderRows, ARowIsTheSameHoweverManyAreBesideIt) {
  for (const DecoderTable* table : runnable_decoder_tables()) {
    for (const WeightNumbers kind : kinds) {
      for (const ProductShape& shape : shapes) {
        const Weight weight(kind, shape.outputs, shape.inputs);
        const auto x = numbers(shape.rows * shape.inputs, 5);
        const auto together =
            product(*table, weight, shape, x.data(), shape.rows, false);
        for (std::int64_t r = 0; r < shape.rows; ++r) {
          const auto alone = product(
              *table,
              weight,
              shape,
              x.data() + r * shape.inputs,
              1,
              false);
          const auto first = together.begin() + r * shape.outputs;
          ASSERT_TRUE(std::equal(alone.begin(), alone.end(), first))
              << table->name << ", row " << r;
        }
      }
    }
  }
}

TEST(DecoderRows, NormsAreExact) {
  for (const std::int64_t size : {1, 15, 16, 64, 100}) {
    const auto x = numbers(size, 1);
    const auto weight = numbers(size, 2);
    const auto bias = numbers(size, 3);
    for (const RowNorm kind : {RowNorm::layer_norm, RowNorm::rms_norm}) {
      const bool centred = kind == RowNorm::layer_norm;
      double mean = 0;
      for (const float each : x) {
        mean += centred ? double{each} / static_cast<double>(size) : 0;
      }
      double squares = 0;
      for (const float each : x) {
        squares += (each - mean) * (each - mean);
      }
      const double deviation =
          std::sqrt(squares / static_cast<double>(size) + 1e-5);
      std::vector<float> first;
      for (const DecoderTable* table : runnable_decoder_tables()) {
        std::vector<float> y(x.size());
        table->normalize(
            {.kind = kind,
             .x = x.data(),
             .size = size,
             .weight = weight.data(),
             .bias = centred ? bias.data() : nullptr,
             .epsilon = 1e-5F,
             .y = y.data()});
        for (std::size_t i = 0; i < y.size(); ++i) {
          EXPECT_NEAR(
              y[i],
              (x[i] - mean) / deviation * weight[i] + (centred ? bias[i] : 0),
              2e-6)
              << table->name;
        }
        first = first.empty() ? y : first;
        EXPECT_EQ(y, first) << table->name;
      }
    }
  }
}

double activated(RowActivation kind, double x) {
  switch (kind) {
    case RowActivation::gelu:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case RowActivation::gelu_tanh:
      return x / 2 *
          (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case RowActivation::relu:
      return std::max(x, 0.0);
    case RowActivation::squared_relu:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case RowActivation::silu:
      break;
  }
  return x / (1 + std::exp(-x));
}

TEST(DecoderRows, ActivationsAreExact) {
  auto x = numbers(203, 1);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] *= static_cast<float>(i % 7); // up to about 20
  }
  x[0] = -100;
  x[1] = 100;
  const auto factors = numbers(203, 2);
  for (const RowActivation kind :
       {RowActivation::gelu,
        RowActivation::gelu_tanh,
        RowActivation::relu,
        RowActivation::squared_relu,
        RowActivation::silu}) {
    std::vector<float> first;
    for (const DecoderTable* table : runnable_decoder_tables()) {
      auto plain = x;
      table->activate(kind, plain.data(), nullptr, std::ssize(x));
      auto gated = x;
      table->activate(kind, gated.data(), factors.data(), std::ssize(x));
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double exact = activated(kind, x[i]);
        EXPECT_NEAR(plain[i], exact, 1e-6 * std::max(1.0, std::abs(exact)))
            << table->name << " of " << x[i];
        EXPECT_EQ(gated[i], plain[i] * factors[i]);
      }
      first = first.empty() ? plain : first;
      EXPECT_EQ(plain, first) << table->name;
    }
  }
}

/// Keys and values in pages, as the kernel reads them.
struct Pages {
  Pages(std::int64_t size, std::int64_t page, std::int64_t length)
      : keys(numbers(length * size, 11)), values(numbers(length * size, 12)) {
    const auto count = static_cast<std::size_t>((length + page - 1) / page);
    memory.assign(
        count,
        std::vector<float>(static_cast<std::size_t>(2 * size * page), 1e30F));
    for (std::int64_t t = 0; t < length; ++t) {
      auto& own = memory[static_cast<std::size_t>(t / page)];
      for (std::int64_t i = 0; i < size; ++i) {
        const auto at = static_cast<std::size_t>(t * size + i);
        own[static_cast<std::size_t>(i * page + t % page)] = keys[at];
        own[static_cast<std::size_t>(size * page + t % page * size + i)] =
            values[at];
      }
    }
    for (const auto& each : memory) {
      table.push_back(each.data());
    }
  }

  std::vector<float> keys;
  std::vector<float> values;
  std::vector<std::vector<float>> memory;
  std::vector<const float*> table;
};

TEST(DecoderRows, AttentionIsExact) {
  struct Shape {
    std::int64_t heads, size, page, length;
    bool has_bias;
  };
  for (const auto& [heads, size, page, length, has_bias] : std::vector<Shape>{
           {1, 64, 16, 1, false},
           {1, 64, 16, 50, false},
           {3, 20, 16, 33, false},
           {3, 20, 16, 33, true},
           {2, 7, 5, 23, true},
           {1, 128, 32, 70, false}}) {
    const Pages pages(size, page, length);
    const auto query = numbers(heads * size, 13);
    const std::int64_t bias_step = length + 3;
    const auto bias = numbers(heads * bias_step, 14);
    std::vector<float> first;
    for (const DecoderTable* table : runnable_decoder_tables()) {
      std::vector<float> scores(
          pages.table.size() * static_cast<std::size_t>(page));
      std::vector<float> result(query.size());
      table->attend(
          {.query = query.data(),
           .heads = heads,
           .head_size = size,
           .scale = 0.25F,
           .pages = pages.table.data(),
           .page_tokens = page,
           .keys_at = 0,
           .values_at = size * page,
           .length = length,
           .bias = has_bias ? bias.data() : nullptr,
           .bias_step = bias_step,
           .scores = scores.data(),
           .result = result.data()});
      for (std::int64_t h = 0; h < heads; ++h) {
        double sum = 0;
        std::vector<double> mixed(static_cast<std::size_t>(size));
        for (std::int64_t t = 0; t < length; ++t) {
          double score = 0;
          for (std::int64_t i = 0; i < size; ++i) {
            score += double{query[static_cast<std::size_t>(h * size + i)]} *
                pages.keys[static_cast<std::size_t>(t * size + i)];
          }
          const double weight = std::exp(
              0.25 * score +
              (has_bias ? bias[static_cast<std::size_t>(h * bias_step + t)]
                        : 0.F));
          sum += weight;
          for (std::int64_t i = 0; i < size; ++i) {
            mixed[static_cast<std::size_t>(i)] +=
                weight * pages.values[static_cast<std::size_t>(t * size + i)];
          }
        }
        for (std::int64_t i = 0; i < size; ++i) {
          EXPECT_NEAR(
              result[static_cast<std::size_t>(h * size + i)],
              mixed[static_cast<std::size_t>(i)] / sum,
              5e-6)
              << table->name;
        }
      }
      first = first.empty() ? result : first;
      EXPECT_EQ(result, first) << table->name;
    }
  }
}

} // namespace
} // namespace cairn::kernels::cpu::decoder_rows_test
