// Kernels on rows of matrices (cross entropy, norms, column sums), against the
// same formulas in double precision.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "kernels/cuda_test.h"
#include "kernels/internal/cuda/column_sums.h"
#include "kernels/internal/cuda/join_heads.h"
#include "kernels/internal/cuda/norm_rows.h"
#include "kernels/internal/cuda/rotate.h"
#include "kernels/internal/cuda/score_rows.h"
#include "kernels/internal/cuda/swiglu.h"

namespace cairn::kernels::cuda_rows_test {
namespace {

using at::Tensor;
using cuda_test::device;
using cuda_test::exact;
using cuda_test::expect_near;
using cuda_test::random;
using cuda_test::started;
using cuda_test::stream;
using cuda_test::Type;
using cuda_test::types;

float* floats(const Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<float>() : nullptr;
}

void* data(const Tensor& x) {
  return x.defined() ? x.mutable_data_ptr() : nullptr;
}

/// Rows of scores with labels; some labels are in no column, some weights 0.
struct Scores {
  Scores(std::int64_t rows, std::int64_t columns, std::int64_t used, Type kind)
      : type(kind),
        values(random({rows, columns}, kind).mul_(4)),
        labels(at::randint(
            -1,
            used + 2,
            {rows},
            at::TensorOptions(device).dtype(at::kLong))),
        weights(at::rand({rows}, at::TensorOptions(device))),
        width(used) {
    weights.masked_fill_(labels.lt(0), 0);
    const Tensor kept = exact(values).narrow(1, 0, used);
    log_sums = kept.logsumexp(1);
    const Tensor names = labels.cpu();
    const Tensor here = names.ge(0).logical_and(names.lt(used));
    const Tensor column = names.clamp(0, used - 1).unsqueeze(1);
    const Tensor counted = here.to(at::kDouble);
    label_scores = kept.gather(1, column).squeeze(1) * counted;
    gradients = at::zeros({rows, columns}, at::kDouble);
    Tensor part = gradients.narrow(1, 0, used);
    part.copy_((kept - log_sums.unsqueeze(1)).exp());
    part.scatter_add_(1, column, -counted.unsqueeze(1));
    part.mul_(exact(weights).unsqueeze(1));
  }

  cuda::ScoreRows rows() const {
    return {
        values.mutable_data_ptr(),
        type.element,
        values.size(0),
        values.size(1),
        width};
  }
  const std::int64_t* label_data() const {
    return labels.const_data_ptr<std::int64_t>();
  }
  Tensor one_each() const {
    return at::empty({values.size(0)}, weights.options());
  }

  Type type;
  Tensor values;
  Tensor labels;
  Tensor weights;
  std::int64_t width;
  Tensor log_sums;     ///< the reference, in double
  Tensor label_scores; ///< 0 where the label has no column
  Tensor gradients;
};

template <class Check>
void over_scores(const Check& check) {
  at::manual_seed(17);
  const std::int64_t shapes[][3] = {
      {5, 64, 64},
      {3, 50304, 50257},
      {4, 37, 33},
      {2, 9001, 9001},
      {300, 1024, 1001},
      {2, 131'072, 128'256},
      {90, 16, 3}};
  for (const Type& type : types) {
    for (const auto& [rows, columns, used] : shapes) {
      SCOPED_TRACE(::testing::Message() << type.dtype << " " << columns);
      check(Scores(rows, columns, used, type));
    }
  }
}

TEST(RowKernels, CrossEntropyAndItsGradientInOnePass) {
  over_scores([](const Scores& scores) {
    const Tensor losses = scores.one_each();
    const Tensor before = scores.values.clone();
    started(cuda::cross_entropy(
        scores.rows(),
        scores.label_data(),
        nullptr,
        floats(losses),
        stream()));
    const Tensor expected = scores.log_sums - scores.label_scores;
    expect_near(losses, expected, 1e-5);
    EXPECT_TRUE(scores.values.equal(before)) << "without weights nothing moves";
    losses.zero_();
    started(cuda::cross_entropy(
        scores.rows(),
        scores.label_data(),
        floats(scores.weights),
        floats(losses),
        stream()));
    expect_near(losses, expected, 1e-5);
    expect_near(scores.values, scores.gradients, scores.type.step);
  });
}

TEST(RowKernels, CrossEntropyInTwoPassesWithASumOverRanksBetween) {
  over_scores([](const Scores& scores) {
    const Tensor highest = scores.one_each();
    const Tensor sum = scores.one_each();
    const Tensor label = scores.one_each();
    started(cuda::sum_scores(
        scores.rows(),
        scores.label_data(),
        {floats(highest), floats(sum), floats(label)},
        stream()));
    const Tensor log_sums = highest + sum.log();
    expect_near(log_sums, scores.log_sums, 1e-5);
    expect_near(label, scores.label_scores, 1e-6);
    started(cuda::scores_to_gradients(
        scores.rows(),
        scores.label_data(),
        floats(log_sums),
        floats(scores.weights),
        stream()));
    expect_near(scores.values, scores.gradients, scores.type.step);
  });
}

TEST(RowKernels, ARankThatHasOnlyPaddingAddsNothing) {
  const Tensor values = at::randn({3, 16}, at::TensorOptions(device));
  const Tensor labels =
      at::zeros({3}, at::TensorOptions(device).dtype(at::kLong));
  const auto made = [&] { return at::full({3}, 7.0, values.options()); };
  const Tensor highest = made();
  const Tensor sum = made();
  const Tensor label = made();
  started(cuda::sum_scores(
      {data(values), Element::fp32, 3, 16, 0},
      labels.const_data_ptr<std::int64_t>(),
      {floats(highest), floats(sum), floats(label)},
      stream()));
  EXPECT_TRUE(highest.isfinite().all().item<bool>());
  EXPECT_EQ(sum.sum().item<double>(), 0);
  EXPECT_EQ(label.sum().item<double>(), 0);
}

TEST(RowKernels, AScoreThatIsNoNumberReachesTheLoss) {
  const Tensor values = at::zeros({1, 16}, at::TensorOptions(device));
  values[0][5] = std::nan("");
  const Tensor labels =
      at::zeros({1}, at::TensorOptions(device).dtype(at::kLong));
  const Tensor losses = at::zeros({1}, values.options());
  started(cuda::cross_entropy(
      {data(values), Element::fp32, 1, 16, 16},
      labels.const_data_ptr<std::int64_t>(),
      nullptr,
      floats(losses),
      stream()));
  EXPECT_TRUE(std::isnan(losses.item<float>()));
}

/// A norm's input and what it must give, in double.
struct NormCase {
  NormCase(
      std::int64_t rows,
      std::int64_t columns,
      bool centred,
      bool adds,
      Type kind)
      : type(kind),
        x(random({rows, columns}, kind).add_(0.5)),
        added(adds ? random({rows, columns}, kind) : Tensor()),
        gamma(random({columns}, kind)),
        beta(centred ? random({columns}, kind) : Tensor()),
        gradient(random({rows, columns}, kind)),
        through(adds ? random({rows, columns}, kind) : Tensor()),
        shape{rows, columns, kind.element, centred, 1e-5F} {
    sum = adds ? (x.to(at::kFloat) + added.to(at::kFloat)).to(type.dtype) : x;
    const Tensor values = exact(sum);
    const Tensor mean =
        centred ? values.mean(1, true) : at::zeros({rows, 1}, at::kDouble);
    const Tensor inverse =
        ((values - mean).square().mean(1, true) + 1e-5F).rsqrt();
    const Tensor normal = (values - mean) * inverse;
    y = normal * exact(gamma);
    if (centred) {
      y += exact(beta);
    }
    const Tensor slope = exact(gradient) * exact(gamma);
    of_x = slope - normal * (slope * normal).mean(1, true);
    if (centred) {
      of_x -= slope.mean(1, true);
    }
    of_x *= inverse;
    if (adds) {
      of_x += exact(through);
    }
    of_gamma = (exact(gradient) * normal).sum(0);
    of_beta = exact(gradient).sum(0);
  }

  Type type;
  Tensor x, added, gamma, beta, gradient, through, sum;
  cuda::NormRows shape;
  Tensor y, of_x, of_gamma, of_beta; ///< the reference
};

/// The norm that is rounded at once, against `y`, the one that is not.
void check_rounded_norm(
    const NormCase& norm,
    const Tensor& y,
    const cuda::NormStatistics& statistics) {
  const auto floats_of = [&](double value) {
    return at::full({1}, value, norm.x.options().dtype(at::kFloat));
  };
  const double most = y.abs().max().item<double>();
  const Tensor unit = floats_of(most / 448 / 2); // of half the range it needs
  const Tensor largest = floats_of(0);
  const Tensor rounded =
      at::empty(y.sizes(), y.options().dtype(at::kFloat8_e4m3fn));
  const Tensor sum = norm.added.defined() ? at::empty_like(norm.x) : Tensor();
  started(cuda::norm_forward(
      norm.shape,
      {.x = data(norm.x),
       .added = data(norm.added),
       .gamma = data(norm.gamma),
       .beta = data(norm.beta),
       .sum = data(sum),
       .rounded = data(rounded),
       .unit = floats(unit),
       .largest = floats(largest),
       .statistics = statistics},
      stream()));
  EXPECT_EQ(largest.item<double>(), most);
  const Tensor quotients =
      y.to(at::kCPU, at::kFloat) * (1 / unit.item<float>());
  EXPECT_TRUE(at::equal(
      rounded.to(at::kCPU).view(at::kByte),
      quotients.clamp(-448, 448).to(at::kFloat8_e4m3fn).view(at::kByte)));
}

void check_norm(const NormCase& norm) {
  const auto floats_of = [&](std::int64_t rows, std::int64_t columns) {
    return at::empty({rows, columns}, norm.x.options().dtype(at::kFloat));
  };
  const auto& [rows, columns, element, centred, epsilon] = norm.shape;
  const Tensor y = at::empty_like(norm.x);
  const Tensor sum = norm.added.defined() ? at::empty_like(norm.x) : Tensor();
  const Tensor mean = floats_of(rows, 1);
  const Tensor inverse = floats_of(rows, 1);
  const cuda::NormStatistics statistics{floats(mean), floats(inverse)};
  started(cuda::norm_forward(
      norm.shape,
      {.x = data(norm.x),
       .added = data(norm.added),
       .gamma = data(norm.gamma),
       .beta = data(norm.beta),
       .sum = data(sum),
       .y = data(y),
       .statistics = statistics},
      stream()));
  expect_near(y, norm.y, 2 * norm.type.step);
  if (element != Element::fp32 && columns % 8 == 0) {
    check_rounded_norm(norm, y, statistics);
  }
  if (sum.defined()) {
    EXPECT_TRUE(sum.equal(norm.sum));
  }
  const Tensor of_x = at::empty_like(norm.x);
  const std::int64_t parts = cuda::norm_parts(norm.shape);
  const Tensor gamma_parts = floats_of(parts, columns);
  const Tensor beta_parts = centred ? floats_of(parts, columns) : Tensor();
  started(cuda::norm_backward(
      norm.shape,
      {.gradient = data(norm.gradient),
       .through = data(norm.through),
       .x = data(norm.sum),
       .gamma = data(norm.gamma),
       .statistics = statistics,
       .of_x = data(of_x),
       .gamma_parts = floats(gamma_parts),
       .beta_parts = floats(beta_parts)},
      stream()));
  expect_near(of_x, norm.of_x, 2 * norm.type.step);
  const double bound = 2e-6 * static_cast<double>(rows) + 1e-4;
  expect_near(gamma_parts.sum(0), norm.of_gamma, bound);
  if (centred) {
    expect_near(beta_parts.sum(0), norm.of_beta, bound);
  }
}

TEST(RowKernels, NormsAndTheirGradients) {
  at::manual_seed(18);
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {7, 768},
      {3, 1600},
      {2, 4096},
      {2, 8192},
      {5, 37},
      {4, 2049},
      {65, 8},
      {1030, 64}};
  for (const Type& type : types) {
    for (const auto& [rows, columns] : shapes) {
      for (const bool centred : {true, false}) {
        for (const bool adds : {true, false}) {
          SCOPED_TRACE(
              ::testing::Message()
              << type.dtype << " " << columns << (centred ? " centred" : "")
              << (adds ? " adds" : ""));
          check_norm(NormCase(rows, columns, centred, adds, type));
        }
      }
    }
  }
}

TEST(RowKernels, ANormOfTooManyColumnsIsRefused) {
  EXPECT_STREQ(
      cuda::norm_forward({.rows = 1, .columns = 100'000}, {}, stream()),
      "a norm of more columns than a block of the GPU can hold");
}

TEST(RowKernels, SwiGluAndItsGradients) {
  at::manual_seed(20);
  for (const Type& type : types) {
    for (const std::int64_t count : {1, 7, 4096, 5001}) {
      SCOPED_TRACE(::testing::Message() << type.dtype << " " << count);
      const Tensor gate = random({count}, type).mul_(3);
      const Tensor up = random({count}, type);
      const Tensor gradient = random({count}, type);
      const Tensor y = at::empty_like(gate);
      const Tensor of_gate = at::empty_like(gate);
      const Tensor of_up = at::empty_like(gate);
      started(cuda::swiglu_forward(
          type.element,
          count,
          data(gate),
          data(up),
          data(y),
          stream()));
      started(cuda::swiglu_backward(
          type.element,
          count,
          data(gradient),
          data(gate),
          data(up),
          data(of_gate),
          data(of_up),
          stream()));
      expect_near(y, at::silu(exact(gate)) * exact(up), type.step);
      expect_near(
          of_gate,
          at::silu_backward(exact(gradient) * exact(up), exact(gate)),
          type.step);
      expect_near(of_up, exact(gradient) * at::silu(exact(gate)), type.step);
    }
  }
}

TEST(RowKernels, RotationsAndBack) {
  at::manual_seed(21);
  const std::int64_t batch = 2;
  const std::int64_t sequence = 5;
  const std::int64_t heads = 3;
  for (const Type& type : types) {
    for (const std::int64_t half : {3, 4, 16}) {
      for (const std::int64_t tables : {std::int64_t{1}, batch}) {
        SCOPED_TRACE(::testing::Message() << type.dtype << " " << half);
        // Heads with gaps between them, and tokens of a head one after another,
        // as queries beside keys and values and as gradients of attention.
        const Tensor all = random({batch, heads, sequence, 3, 2 * half}, type);
        const Tensor x = all.select(3, 1).transpose(1, 2);
        const Tensor angle = random({tables, sequence, 1, half}, types[0]);
        const Tensor cosine = angle.cos().to(type.dtype);
        const Tensor sine = angle.sin().to(type.dtype);
        const Tensor first = exact(x).narrow(3, 0, half);
        const Tensor second = exact(x).narrow(3, half, half);
        for (const bool back : {false, true}) {
          const Tensor to = at::empty(x.sizes(), x.options());
          started(cuda::rotate(
              {.batch = batch,
               .sequence = sequence,
               .heads = heads,
               .half = half,
               .batch_step = x.stride(0),
               .token_step = x.stride(1),
               .head_step = x.stride(2),
               .positions = tables * sequence,
               .element = type.element,
               .back = back},
              x.const_data_ptr(),
              data(cosine),
              data(sine),
              data(to),
              stream()));
          const Tensor c = exact(cosine);
          const Tensor s = back ? -exact(sine) : exact(sine);
          expect_near(
              to,
              at::cat({first * c - second * s, second * c + first * s}, 3),
              type.step);
        }
      }
    }
  }
}

/// Turns x [batch, tokens, heads, size] by angles [1 or batch, tokens, 1, size
/// / 2].
Tensor turned(const Tensor& x, const Tensor& cosine, const Tensor& sine) {
  const auto halves = x.chunk(2, 3);
  return at::cat(
      {halves[0] * cosine - halves[1] * sine,
       halves[1] * cosine + halves[0] * sine},
      3);
}

TEST(RowKernels, QueriesKeysAndValuesAreJoinedAndSplit) {
  at::manual_seed(20);
  struct Case {
    std::int64_t batch, tokens, groups, queries, size;
    std::int64_t tables; ///< 0: nothing is turned
  };
  const Case cases[] = {
      {2, 5, 12, 1, 64, 0},
      {3, 7, 2, 4, 8, 0},
      {5, 67, 1, 1, 16, 1},
      {3, 11, 2, 4, 32, 3}};
  for (const Type& type : {types[1], types[2]}) {
    for (const auto& [batch, tokens, groups, queries, size, tables] : cases) {
      SCOPED_TRACE(size);
      const cuda::JoinedShape
          shape{batch, tokens, groups, queries, size, type.element};
      const Tensor angle = at::rand(
          {std::max<std::int64_t>(tables, 1), tokens, 1, size / 2},
          at::TensorOptions(device));
      const Tensor cosine =
          (tables == 0 ? at::ones_like(angle) : angle.cos()).to(type.dtype);
      const Tensor sine =
          (tables == 0 ? at::zeros_like(angle) : angle.sin()).to(type.dtype);
      const cuda::Angles angles = tables == 0
          ? cuda::Angles{}
          : cuda::Angles{data(cosine), data(sine), tables * tokens};
      const Tensor joined =
          random({batch, tokens, groups, queries + 2, size}, type);
      const auto part = [&](std::int64_t first, std::int64_t count) {
        return joined.narrow(3, first, count).flatten(2, 3);
      };

      const std::int64_t heads = groups * queries;
      const Tensor query = random({batch, tokens, heads, size}, type);
      const Tensor key = random({batch, tokens, groups, size}, type);
      const Tensor value = random({batch, tokens, groups, size}, type);
      started(cuda::split_heads(
          shape,
          data(joined),
          angles,
          data(query),
          data(key),
          data(value),
          stream()));
      const auto expected = [&](const Tensor& x, const Tensor& by) {
        return turned(exact(x), exact(cosine), by);
      };
      expect_near(query, expected(part(0, queries), exact(sine)), type.step);
      expect_near(key, expected(part(queries, 1), exact(sine)), type.step);
      EXPECT_TRUE(at::equal(value, part(queries + 1, 1)));

      const Tensor apart =
          random({batch, heads, tokens, size}, type).transpose(1, 2);
      const std::int64_t columns = groups * (queries + 2) * size;
      const Tensor parts = at::empty(
          {cuda::joined_parts(shape), columns},
          joined.options().dtype(at::kFloat));
      const auto all = [](const Tensor& x) {
        return cuda::Heads{data(x), x.stride(0), x.stride(1), x.stride(2)};
      };
      const cuda::HeadsOfAll from{all(apart), all(key), all(value)};
      ASSERT_TRUE(cuda::can_join_heads(shape, from, angles));
      started(cuda::join_heads(
          shape,
          from,
          angles,
          data(joined),
          floats(parts),
          stream()));
      expect_near(part(0, queries), expected(apart, -exact(sine)), type.step);
      expect_near(part(queries, 1), expected(key, -exact(sine)), type.step);
      EXPECT_TRUE(at::equal(part(queries + 1, 1), value));
      expect_near(parts.sum(0), exact(joined).view({-1, columns}).sum(0), 1e-4);

      const Tensor alone = random(joined.sizes(), type);
      started(cuda::join_heads(
          shape,
          from,
          angles,
          data(alone),
          /*parts=*/nullptr,
          stream()));
      EXPECT_TRUE(at::equal(alone, joined));
    }
  }
}

TEST(RowKernels, HeadsThatDoNotLieInEightsAreNotJoined) {
  const Tensor x = random({2, 3, 4, 24}, types[2]);
  const cuda::Heads heads{data(x), x.stride(0), x.stride(1), x.stride(2)};
  const cuda::HeadsOfAll all{heads, heads, heads};
  const cuda::Angles angles{data(x), data(x), 3};
  const auto takes = [&](std::int64_t size, Element element, auto by) {
    return cuda::can_join_heads({2, 3, 4, 1, size, element}, all, by);
  };
  EXPECT_TRUE(takes(24, Element::bf16, cuda::Angles{}));
  EXPECT_FALSE(takes(24, Element::bf16, angles)); // its halves do not
  EXPECT_FALSE(takes(12, Element::bf16, cuda::Angles{}));
  EXPECT_FALSE(takes(8, Element::fp32, cuda::Angles{}));
}

TEST(RowKernels, ColumnSumsAndTheGradientOfGelu) {
  at::manual_seed(19);
  const std::pair<std::int64_t, std::int64_t> shapes[] =
      {{1, 8}, {65, 768}, {4096, 320}, {7, 37}, {300, 1001}};
  for (const Type& type : types) {
    for (const auto& [rows, columns] : shapes) {
      SCOPED_TRACE(::testing::Message() << type.dtype << " " << columns);
      const cuda::MatrixShape shape{rows, columns, type.element};
      const Tensor matrix = random({rows, columns}, type);
      const Tensor parts = at::empty(
          {cuda::column_parts(shape), columns},
          matrix.options().dtype(at::kFloat));
      const double bound = 2e-6 * static_cast<double>(rows) + 1e-5;
      started(cuda::column_sums(shape, data(matrix), floats(parts), stream()));
      expect_near(parts.sum(0), exact(matrix).sum(0), bound);

      const Tensor total = random({columns}, types[0]);
      const Tensor old = exact(total);
      for (const bool add : {true, false}) {
        started(cuda::sum_of_parts(
            floats(parts),
            parts.size(0),
            columns,
            data(total),
            Element::fp32,
            add,
            stream()));
        expect_near(
            total,
            exact(matrix).sum(0) + (add ? old : at::zeros_like(old)),
            bound);
      }

      for (const bool by_tanh : {true, false}) {
        const Tensor x = random({rows, columns}, type);
        const Tensor gradient = random({rows, columns}, type);
        const Tensor expected = at::gelu_backward(
            exact(gradient),
            exact(x),
            by_tanh ? "tanh" : "none");
        started(cuda::gelu_backward(
            shape,
            by_tanh ? cuda::Gelu::tanh : cuda::Gelu::exact,
            data(gradient),
            data(x),
            data(gradient),
            floats(parts),
            stream()));
        expect_near(gradient, expected, type.step);
        expect_near(parts.sum(0), exact(gradient).sum(0), bound);
      }
    }
  }
}

} // namespace
} // namespace cairn::kernels::cuda_rows_test
