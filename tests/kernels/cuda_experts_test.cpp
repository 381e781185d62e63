// Kernels for the rows of experts, against loops and libtorch in double.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda_test.h"
#include "kernels/internal/cuda/choice_rows.h"
#include "kernels/internal/cuda/expert_choice.h"
#include "kernels/internal/cuda/group_rows.h"
#include "kernels/internal/cuda/mix_rows.h"

namespace cairn::kernels::cuda_experts_test {
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

Tensor of_device(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong).to(device);
}

std::vector<std::int64_t> values_of(const Tensor& x) {
  const Tensor here = x.to(at::kCPU, at::kLong).contiguous();
  const auto* const begin = here.const_data_ptr<std::int64_t>();
  return {begin, begin + here.numel()};
}

/// Rows for choices, found one by one.
struct Rows {
  Rows(
      const std::vector<std::int64_t>& chosen,
      std::int64_t tokens,
      std::int64_t experts,
      std::int64_t rows,
      std::int64_t unit)
      : slots(chosen.size()),
        comers(
            static_cast<std::size_t>(rows),
            static_cast<std::int64_t>(chosen.size())),
        sources(static_cast<std::size_t>(rows), tokens) {
    std::int64_t row = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      const std::int64_t begin = row;
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i] == e) {
          slots[i] = row;
          comers[static_cast<std::size_t>(row)] = static_cast<std::int64_t>(i);
          sources[static_cast<std::size_t>(row)] =
              static_cast<std::int64_t>(i) % tokens;
          ++row;
        }
      }
      const std::int64_t count = std::max<std::int64_t>(row - begin, 1);
      row = begin + (count + unit - 1) / unit * unit;
      ends.push_back(row);
    }
  }

  std::vector<std::int64_t> ends;
  std::vector<std::int64_t> slots;
  std::vector<std::int64_t> comers;
  std::vector<std::int64_t> sources;
};

TEST(ExpertKernels, SortChoices) {
  at::manual_seed(30);
  struct Case {
    std::int64_t tokens, picks, experts, unit;
  };
  for (const Case& c :
       {Case{1, 1, 1, 8},
        Case{255, 1, 4, 8},
        Case{256, 1, 300, 8},
        Case{257, 3, 7, 1},
        Case{1000, 2, 1024, 4},
        Case{700, 8, 32, 8}}) {
    SCOPED_TRACE(::testing::Message() << c.tokens << " " << c.experts);
    const std::int64_t choices = c.tokens * c.picks;
    const Tensor chosen = at::randint(
        c.experts / 3, // the first ones get nothing
        c.experts,
        {choices},
        at::TensorOptions(device).dtype(at::kLong));
    const cuda::ChoiceRows shape{
        .choices = choices,
        .tokens = c.tokens,
        .experts = c.experts,
        .rows = choices + c.experts * c.unit,
        .unit = c.unit};
    const Tensor ends =
        at::empty({c.experts}, chosen.options().dtype(at::kInt));
    const Tensor slots = at::empty_like(chosen);
    const Tensor comers = at::empty({shape.rows}, chosen.options());
    const Tensor sources = at::empty({shape.rows}, chosen.options());
    const Tensor workspace = at::empty(
        {cuda::sort_workspace(shape)},
        chosen.options().dtype(at::kInt));
    started(cuda::sort_choices(
        shape,
        chosen.const_data_ptr<std::int64_t>(),
        {ends.mutable_data_ptr<std::int32_t>(),
         slots.mutable_data_ptr<std::int64_t>(),
         comers.mutable_data_ptr<std::int64_t>(),
         sources.mutable_data_ptr<std::int64_t>()},
        workspace.mutable_data_ptr<std::int32_t>(),
        stream()));
    const Rows wanted(
        values_of(chosen),
        c.tokens,
        c.experts,
        shape.rows,
        c.unit);
    EXPECT_EQ(values_of(ends), wanted.ends);
    EXPECT_EQ(values_of(slots), wanted.slots);
    EXPECT_EQ(values_of(comers), wanted.comers);
    EXPECT_EQ(values_of(sources), wanted.sources);
  }
}

TEST(ExpertKernels, TooManyExpertsAreRefused) {
  EXPECT_STREQ(
      cuda::sort_choices(
          {.choices = 1, .experts = cuda::most_sorted_experts + 1},
          nullptr,
          {},
          nullptr,
          stream()),
      "too many experts");
}

/// What tokens choose by scores, on the device.
struct Choice {
  Choice(const Tensor& given, std::int64_t picks) : scores(given) {
    shape = {
        .tokens = scores.size(0),
        .experts = scores.size(1),
        .picks = picks};
    const auto longs = scores.options().dtype(at::kLong);
    experts = at::full({picks, shape.tokens}, -1, longs);
    counts = at::full({shape.experts}, -1, longs);
    firsts = at::full({shape.experts}, -1, longs);
    gates = at::full({picks, shape.tokens}, NAN, scores.options());
    log_sums = at::full({shape.tokens}, NAN, scores.options());
    means = at::full({shape.experts}, NAN, scores.options());
    const Tensor workspace = at::empty(
        {cuda::choice_workspace(shape)},
        scores.options().dtype(at::kInt));
    started(cuda::choose_experts(
        shape,
        scores.const_data_ptr<float>(),
        {.experts = experts.mutable_data_ptr<std::int64_t>(),
         .gates = gates.mutable_data_ptr<float>(),
         .log_sums = log_sums.mutable_data_ptr<float>(),
         .means = means.mutable_data_ptr<float>(),
         .counts = counts.mutable_data_ptr<std::int64_t>(),
         .firsts = firsts.mutable_data_ptr<std::int64_t>()},
        workspace.mutable_data_ptr(),
        stream()));
  }

  Tensor backward(const Tensor& of_gates, const Tensor& of_means) const {
    Tensor of_scores = at::full_like(scores, NAN);
    started(cuda::choose_experts_backward(
        shape,
        scores.const_data_ptr<float>(),
        log_sums.const_data_ptr<float>(),
        experts.const_data_ptr<std::int64_t>(),
        of_gates.defined() ? of_gates.const_data_ptr<float>() : nullptr,
        of_means.defined() ? of_means.const_data_ptr<float>() : nullptr,
        of_scores.mutable_data_ptr<float>(),
        stream()));
    return of_scores;
  }

  Tensor scores;
  cuda::ExpertChoice shape;
  Tensor experts, gates, log_sums, means, counts, firsts;
};

TEST(ExpertKernels, ChooseExperts) {
  at::manual_seed(34);
  struct Case {
    std::int64_t tokens, experts, picks;
  };
  for (const Case& c :
       {Case{1, 1, 1},
        Case{100, 3, 3},
        Case{9000, 8, 1},
        Case{77, 9, 2},
        Case{300, 33, 8},
        Case{2500, 128, 2},
        Case{19, 200, 5},
        Case{21, 1024, 8}}) {
    SCOPED_TRACE(::testing::Message() << c.tokens << " " << c.experts);
    const Tensor scores = random({c.tokens, c.experts}, types[0]) * 3;
    const Choice found(scores, c.picks);

    const Tensor wide = exact(scores).requires_grad_();
    const Tensor softmax = at::softmax(wide, 1);
    const auto [gates, experts] = at::topk(softmax, c.picks, 1);
    EXPECT_TRUE(at::equal(found.experts.cpu(), experts.t()));
    expect_near(found.gates, gates.detach().t(), 2e-6);
    expect_near(found.log_sums, at::logsumexp(wide.detach(), {1}), 2e-6);
    expect_near(found.means, softmax.detach().mean(0), 2e-6);
    const auto counts_of = [&](const Tensor& chosen) {
      return at::bincount(chosen.reshape({-1}), {}, c.experts);
    };
    EXPECT_TRUE(at::equal(found.counts.cpu(), counts_of(experts)));
    EXPECT_TRUE(at::equal(found.firsts.cpu(), counts_of(experts.select(1, 0))));

    const Tensor of_gates = random({c.picks, c.tokens}, types[0]);
    const Tensor of_means = random({c.experts}, types[0]) * 50;
    const auto expect_gradient = [&](const Tensor& by_gates,
                                     const Tensor& by_means) {
      Tensor loss = at::zeros({}, at::kDouble);
      if (by_gates.defined()) {
        loss = loss + (gates.t() * exact(by_gates)).sum();
      }
      if (by_means.defined()) {
        loss = loss + (softmax.mean(0) * exact(by_means)).sum();
      }
      wide.mutable_grad().reset();
      loss.backward({}, /*retain_graph=*/true);
      expect_near(found.backward(by_gates, by_means), wide.grad(), 2e-6);
    };
    expect_gradient(of_gates, of_means);
    expect_gradient(of_gates, {});
    expect_gradient({}, of_means);
  }
}

TEST(ExpertKernels, ChooseTheFirstOfEqualExpertsAndNeverOneTwice) {
  const float nan = NAN;
  const Tensor scores = at::tensor({1.F,
                                    2.F,
                                    2.F,
                                    2.F, // the second to fourth
                                    nan,
                                    nan,
                                    nan,
                                    nan, // no numbers
                                    nan,
                                    1.F,
                                    nan,
                                    0.F})
                            .view({3, 4})
                            .to(device);
  const Choice found(scores, 3);
  EXPECT_EQ(
      values_of(found.experts.t()),
      (std::vector<std::int64_t>{1, 2, 3, 0, 1, 2, 1, 3, 0}));
  EXPECT_TRUE(found.gates.select(1, 1).isnan().all().item<bool>());
}

TEST(ExpertKernels, ChoicesThatDoNotFitAreRefused) {
  for (const cuda::ExpertChoice& shape :
       {cuda::ExpertChoice{1, cuda::most_chosen_experts + 1, 1},
        cuda::ExpertChoice{1, 4, 5},
        cuda::ExpertChoice{1, 4, 0}}) {
    EXPECT_NE(
        cuda::choose_experts(shape, nullptr, {}, nullptr, stream()),
        nullptr);
  }
}

TEST(ExpertKernels, NumbersInTwoParts) {
  at::manual_seed(35);
  for (const std::int64_t columns : {1, 8, 37}) {
    const Tensor x = random({301, columns}, types[0]);
    const Tensor both =
        at::full({301, 2 * columns}, NAN, x.options().dtype(at::kBFloat16));
    started(cuda::split_floats(
        301,
        columns,
        x.const_data_ptr<float>(),
        both.mutable_data_ptr(),
        stream()));
    const Tensor large = both.narrow(1, 0, columns);
    EXPECT_TRUE(at::equal(large, x.to(at::kBFloat16)));
    const Tensor sum = exact(large) + exact(both.narrow(1, columns, columns));
    const Tensor off = (sum - exact(x)).abs() / exact(x).abs();
    EXPECT_LE(off.max().item<double>(), 1.0 / (1 << 16));
  }
}

/// Groups of some rows, none, one and many; then rows of nobody.
TEST(ExpertKernels, BiasesOfGroupsAndTheirGradients) {
  at::manual_seed(31);
  const std::vector<std::int64_t> ends{9, 9, 10, 330};
  const std::int64_t rows = 333;
  const Tensor device_ends = of_device(ends).to(at::kInt);
  for (const Type& type : types) {
    for (const std::int64_t columns : {1, 37, 64, 520}) {
      SCOPED_TRACE(::testing::Message() << type.dtype << " " << columns);
      const Tensor x = random({rows, columns}, type);
      const Tensor biases = random({4, columns}, type);
      const cuda::GroupedRows shape{
          rows,
          columns,
          4,
          device_ends.const_data_ptr<std::int32_t>(),
          type.element};
      const Tensor added = x.clone();
      started(cuda::add_group_biases(
          shape,
          biases.const_data_ptr(),
          added.mutable_data_ptr(),
          stream()));
      const Tensor parts = at::empty(
          {4, cuda::group_parts(shape), columns},
          x.options().dtype(at::kFloat));
      started(cuda::group_sums(
          shape,
          x.const_data_ptr(),
          parts.mutable_data_ptr<float>(),
          stream()));
      const Tensor wanted = exact(x);
      const Tensor sums = at::zeros({4, columns}, at::kDouble);
      std::int64_t begin = 0;
      for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t end = ends[static_cast<std::size_t>(i)];
        Tensor part = wanted.narrow(0, begin, end - begin);
        sums[i] = part.sum(0);
        part.add_(exact(biases)[i]);
        begin = end;
      }
      expect_near(added, wanted, type.step);
      expect_near(parts.sum(1), sums, 1e-4);
    }
  }
}

TEST(ExpertKernels, GeluOfGroupsAndItsGradients) {
  at::manual_seed(33);
  const std::int64_t rows = 75;
  const std::int64_t used = 72;
  const Tensor ends = of_device({8, 8, 72}).to(at::kInt);
  for (const Type& type : types) {
    for (const std::int64_t columns : {37, 264}) {
      for (const auto kind : {cuda::Gelu::exact, cuda::Gelu::tanh}) {
        for (const bool biased : {true, false}) {
          SCOPED_TRACE(::testing::Message() << type.dtype << " " << columns);
          const Tensor x = random({rows, columns}, type);
          const Tensor biases = random({3, columns}, type);
          const Tensor gradient = random({rows, columns}, type);
          const cuda::GroupedRows shape{
              rows,
              columns,
              3,
              ends.const_data_ptr<std::int32_t>(),
              type.element};
          const Tensor wanted = exact(x).narrow(0, 0, used);
          if (biased) {
            wanted.narrow(0, 0, 8).add_(exact(biases)[0]);
            wanted.narrow(0, 8, 64).add_(exact(biases)[2]);
          }
          const Tensor y = at::empty_like(x);
          started(cuda::add_group_biases_gelu(
              shape,
              kind,
              biased ? biases.const_data_ptr() : nullptr,
              x.mutable_data_ptr(),
              y.mutable_data_ptr(),
              stream()));
          const char* const name = kind == cuda::Gelu::exact ? "none" : "tanh";
          const Tensor sums = exact(x).narrow(0, 0, used);
          expect_near(sums, wanted, type.step);
          expect_near(
              y.narrow(0, 0, used),
              at::gelu(sums, name),
              2 * type.step);
          const Tensor of_sums =
              at::gelu_backward(exact(gradient).narrow(0, 0, used), sums, name);
          const Tensor parts = at::empty(
              {3, cuda::group_parts(shape), columns},
              x.options().dtype(at::kFloat));
          started(cuda::group_gelu_backward(
              shape,
              kind,
              x.const_data_ptr(),
              gradient.mutable_data_ptr(),
              parts.mutable_data_ptr<float>(),
              stream()));
          const Tensor found = exact(gradient).narrow(0, 0, used);
          expect_near(found, of_sums, 2 * type.step);
          const Tensor totals = at::zeros({3, columns}, at::kDouble);
          totals[0] = found.narrow(0, 0, 8).sum(0);
          totals[2] = found.narrow(0, 8, 64).sum(0);
          expect_near(parts.sum(1), totals, 1e-4);
        }
      }
    }
  }
}

TEST(ExpertKernels, MixedRowsAndTheirGradients) {
  at::manual_seed(32);
  const std::int64_t count = 11;
  for (const Type& type : types) {
    for (const std::int64_t picks : {1, 2, 8}) {
      for (const std::int64_t columns : {5, 64, 2056}) {
        SCOPED_TRACE(
            ::testing::Message()
            << type.dtype << " " << picks << " " << columns);
        // Places in a random order; some name no row, some rows have no place.
        const std::int64_t from = picks * count + 3;
        const Tensor rows =
            at::randperm(from, at::kLong).narrow(0, 0, picks * count).clone();
        rows.narrow(0, 2, 1).fill_(from);
        const Tensor comers = at::full({from + 1}, picks * count, at::kLong);
        comers.scatter_(0, rows, at::arange(picks * count, at::kLong));
        comers.narrow(0, from, 1).fill_(picks * count);
        const Tensor x = random({from, columns}, type);
        const Tensor weights =
            at::rand({picks * count}, at::TensorOptions(device));
        const Tensor y = random({count, columns}, type);
        const cuda::MixedRows shape{count, picks, from, columns, type.element};
        const Tensor picked = rows.to(device);
        started(cuda::mix_rows(
            shape,
            x.const_data_ptr(),
            picked.const_data_ptr<std::int64_t>(),
            weights.const_data_ptr<float>(),
            y.mutable_data_ptr(),
            stream()));
        const Tensor padded =
            at::cat({exact(x), at::zeros({1, columns}, at::kDouble)});
        const auto sums = [&](const Tensor& by) {
          return (padded.index_select(0, rows) * by.unsqueeze(1))
              .view({picks, count, columns})
              .sum(0);
        };
        expect_near(y, sums(exact(weights)), 4 * type.step);
        started(cuda::mix_rows(
            shape,
            x.const_data_ptr(),
            picked.const_data_ptr<std::int64_t>(),
            nullptr,
            y.mutable_data_ptr(),
            stream()));
        expect_near(
            y,
            sums(at::ones({picks * count}, at::kDouble)),
            4 * type.step);
        const Tensor gradient = random({count, columns}, type);
        const Tensor of_x = random({from, columns}, type);
        const Tensor of_weights = at::zeros_like(weights);
        const Tensor named = comers.narrow(0, 0, from).to(device);
        started(cuda::mix_rows_backward(
            shape,
            gradient.const_data_ptr(),
            x.const_data_ptr(),
            named.const_data_ptr<std::int64_t>(),
            weights.const_data_ptr<float>(),
            of_x.mutable_data_ptr(),
            of_weights.mutable_data_ptr<float>(),
            stream()));
        const Tensor outer = exact(gradient)
                                 .unsqueeze(0)
                                 .expand({picks, count, columns})
                                 .reshape({picks * count, columns});
        const Tensor of_padded = at::zeros_like(padded).index_add_(
            0,
            rows,
            outer * exact(weights).unsqueeze(1));
        expect_near(of_x, of_padded.narrow(0, 0, from), type.step);
        expect_near(
            of_weights,
            (outer * padded.index_select(0, rows)).sum(1),
            1e-3);
      }
    }
  }
}

} // namespace
} // namespace cairn::kernels::cuda_experts_test
