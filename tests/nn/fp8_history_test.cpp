// Units of fp8 matrices that follow from earlier updates. The tests run on a
// CPU and on a GPU.
#include "nn/fp8/fp8_history.h"
#include "kernels/internal/cuda/cuda.h"
#include "nn/internal/fp8_histories.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/nn/checkpoint.h>
#include <cairn/nn/mlp.h>
#include <cairn/nn/norm.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace cairn::nn::fp8_history_test {
namespace {

using at::Tensor;

const at::DeviceType device =
    kernels::cuda::has_kernels() ? at::kCUDA : at::kCPU;

/// A linear layer with a history, and who looks after it.
struct Kept {
  std::shared_ptr<ColumnLinear> layer;
  std::unique_ptr<Fp8Histories> histories;

  explicit Kept(const Fp8Delay& delay, bool keeps_weights = true) {
    layer = std::make_shared<ColumnLinear>(
        LayerContext{
            .dtype = at::kBFloat16,
            .device = device,
            .fp8 = Fp8Format::hybrid},
        LinearOptions{.in = 64, .out = 32});
    delay_fp8(*layer, delay, device);
    histories = std::make_unique<Fp8Histories>(
        *layer,
        keeps_weights ? Fp8Histories::Weights::kept
                      : Fp8Histories::Weights::rounded_again);
  }

  double number(Fp8History::Factor factor, int place) const {
    return layer->fp8_history()
        ->buffer()
        .view(at::kFloat)[factor][place]
        .item<double>();
  }
  double unit(Fp8History::Factor factor) const {
    return number(factor, Fp8History::unit);
  }

  /// A pass whose input's and gradient's largest values are these.
  Tensor pass(double input, double gradient) const {
    Tensor x = at::rand({16, 64}, at::TensorOptions(device)) * (input / 2);
    x[3][5] = -input;
    Tensor of = at::rand({16, 32}, at::TensorOptions(device)) * (gradient / 2);
    of[7][9] = gradient;
    const Tensor y = layer->forward(x.to(at::kBFloat16));
    y.backward(of.to(at::kBFloat16));
    return y.detach();
  }

  void update() { histories->advance({}); }
};

/// Equal but for float's rounding.
void expect_about(double found, double wanted) {
  EXPECT_NEAR(found, wanted, 1e-6 * wanted);
}

double weight_of(const Kept& kept) {
  return kept.layer->weight().abs().max().item<double>();
}

TEST(Fp8History, UnitsComeFromTheLastUpdate) {
  at::manual_seed(1);
  Kept kept({.history = 1});
  kept.histories->look();
  EXPECT_FALSE(kept.histories->are_ready());
  kept.pass(4, 0.5);
  kept.pass(2, 1); // the larger value of each factor counts
  EXPECT_EQ(kept.unit(Fp8History::input), 0);
  EXPECT_EQ(kept.number(Fp8History::input, Fp8History::largest), 4);
  kept.update();
  EXPECT_TRUE(kept.histories->are_ready());
  expect_about(kept.unit(Fp8History::input), 4.0 / 448);
  expect_about(kept.unit(Fp8History::gradient), 1.0 / 57344);
  expect_about(kept.unit(Fp8History::weight), weight_of(kept) / 448);
  EXPECT_EQ(kept.number(Fp8History::input, Fp8History::largest), 0);
  kept.pass(8, 0.25);
  expect_about(kept.unit(Fp8History::input), 4.0 / 448); // until the update
  kept.update();
  expect_about(kept.unit(Fp8History::input), 8.0 / 448);
  expect_about(kept.unit(Fp8History::gradient), 0.25 / 57344);
}

TEST(Fp8History, TheLargestOfSeveralUpdatesWithAMargin) {
  at::manual_seed(2);
  Kept kept({.history = 3, .from = Fp8Delay::From::max, .margin = 2});
  const std::vector<double> given{2, 16, 4, 1, 8, 1};
  const std::vector<double> largest{2, 16, 16, 16, 8, 8};
  for (std::size_t i = 0; i < given.size(); ++i) {
    kept.pass(given[i], 1);
    kept.update();
    expect_about(kept.unit(Fp8History::input), 4 * largest[i] / 448);
  }
  EXPECT_EQ(kept.number(Fp8History::input, Fp8History::earlier), 1);
  EXPECT_EQ(kept.number(Fp8History::input, Fp8History::earlier + 1), 8);
  EXPECT_EQ(kept.number(Fp8History::input, Fp8History::earlier + 2), 1);
}

TEST(Fp8History, AMatrixThatNobodyMadeKeepsItsUnit) {
  at::manual_seed(3);
  Kept kept({});
  kept.update();
  EXPECT_EQ(kept.unit(Fp8History::input), 1); // nothing is known
  kept.pass(4, 1);
  kept.update();
  kept.update();
  expect_about(kept.unit(Fp8History::input), 4.0 / 448);
}

TEST(Fp8History, ValuesBeyondTheRangeAreHeld) {
  at::manual_seed(4);
  Kept kept({});
  kept.pass(1, 1);
  kept.update();
  const auto answer = [&](double first) {
    const at::NoGradGuard no_grad;
    Tensor x =
        at::zeros({16, 64}, at::TensorOptions(device).dtype(at::kBFloat16));
    x[0][0] = first;
    return kept.layer->forward(x)[0].to(at::kCPU, at::kFloat);
  };
  EXPECT_TRUE(at::equal(answer(1), answer(64)));
  EXPECT_FALSE(at::equal(answer(1), answer(0.5)));
}

TEST(Fp8History, EvaluationNotesNothing) {
  at::manual_seed(5);
  Kept kept({});
  {
    const at::NoGradGuard no_grad;
    kept.layer->forward(
        at::ones({16, 64}, at::TensorOptions(device).dtype(at::kBFloat16)));
  }
  EXPECT_EQ(kept.number(Fp8History::input, Fp8History::largest), 0);
}

/// The first update measures, and the second one has the units that follow:
/// with the same input they are the same.
TEST(Fp8History, AnEqualPassHasAnEqualResult) {
  for (const bool gated : {false, true}) {
    at::manual_seed(6);
    const auto mlp = std::make_shared<Mlp>(
        LayerContext{
            .dtype = at::kBFloat16,
            .device = device,
            .fp8 = Fp8Format::hybrid},
        MlpOptions{
            .hidden = 64,
            .ffn = 128,
            .activation = gated ? model::ActivationKind::silu
                                : model::ActivationKind::gelu_tanh,
            .gated = gated,
            .bias = !gated});
    delay_fp8(*mlp, {}, device);
    Fp8Histories histories(*mlp);
    const Tensor x = at::randn({32, 64}, at::TensorOptions(device))
                         .to(at::kBFloat16)
                         .requires_grad_();
    const Tensor weights =
        at::randn({32, 64}, at::TensorOptions(device)).to(at::kBFloat16);
    const auto pass = [&](bool recomputed) {
      mlp->zero_grad();
      x.mutable_grad() = Tensor();
      const Tensor y = recomputed
          ? checkpoint(
                {},
                [&](const Tensor& again) {
                  return std::vector{mlp->forward(again)};
                },
                x)[0]
          : mlp->forward(x);
      y.backward(weights);
      std::vector<Tensor> found{y.detach(), x.grad()};
      for (const Tensor& parameter : mlp->parameters()) {
        found.push_back(parameter.grad());
      }
      return found;
    };
    const std::vector<Tensor> measured = pass(false);
    histories.advance({});
    for (const bool recomputed : {false, true}) {
      const std::vector<Tensor> known = pass(recomputed);
      ASSERT_EQ(known.size(), measured.size());
      for (std::size_t i = 0; i < known.size(); ++i) {
        SCOPED_TRACE(i);
        const Tensor a = known[i].to(at::kCPU, at::kDouble);
        const Tensor b = measured[i].to(at::kCPU, at::kDouble);
        // The measured range of a GELU's gradient has some room, so its e5m2
        // numbers, of three bits, round differently.
        EXPECT_LT(((a - b).norm() / b.norm()).item<double>(), 0.13);
      }
      EXPECT_TRUE(at::equal(known[0], measured[0]));
      histories.advance({});
    }
  }
}

TEST(Fp8History, ANormRoundsForTheLayerThatReadsIt) {
  at::manual_seed(8);
  Kept kept({});
  const auto norm = std::make_shared<Norm>(
      LayerContext{.dtype = at::kBFloat16, .device = device},
      64,
      NormOptions{});
  const auto given = [](double size) {
    return (at::randn({2, 16, 64}, at::TensorOptions(device)) * size)
        .to(at::kBFloat16)
        .requires_grad_();
  };
  const Tensor x = given(1);
  const Tensor branch = given(0.5);
  const Tensor weights =
      at::randn({2, 16, 32}, at::TensorOptions(device)).to(at::kBFloat16);
  const auto pass = [&](bool at_once) {
    for (const Tensor& each : {x, branch}) {
      each.mutable_grad() = Tensor();
    }
    norm->zero_grad();
    kept.layer->zero_grad();
    LayerInput normal = norm->pass_to(*kept.layer, x, branch).second;
    EXPECT_EQ(normal.fp8_rows.defined(), kept.histories->are_ready());
    if (!at_once) {
      normal = norm->pass(x, branch).second;
    }
    const Tensor y = kept.layer->forward(normal);
    y.backward(weights);
    std::vector<Tensor> found{y.detach(), x.grad(), branch.grad()};
    for (const Tensor& parameter : norm->parameters()) {
      found.push_back(parameter.grad());
    }
    for (const Tensor& parameter : kept.layer->parameters()) {
      found.push_back(parameter.grad());
    }
    return found;
  };
  pass(false);
  kept.update();
  const std::vector<Tensor> apart = pass(false);
  const double largest = kept.number(Fp8History::input, Fp8History::largest);
  const std::vector<Tensor> at_once = pass(true);
  EXPECT_EQ(kept.number(Fp8History::input, Fp8History::largest), largest);
  ASSERT_EQ(apart.size(), at_once.size());
  for (std::size_t i = 0; i < apart.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(at::equal(apart[i], at_once[i]));
  }
}

/// All passes of an update read the weight that the first one has rounded; the
/// next update rounds it again, and evaluation never reads an old one.
TEST(Fp8History, WeightsAreRoundedOnceForAnUpdate) {
  for (const bool kept : {true, false}) {
    at::manual_seed(9);
    Kept layer({}, kept);
    const Tensor x = at::randn({16, 64}, at::TensorOptions(device))
                         .to(at::kBFloat16)
                         .requires_grad_();
    const auto answer = [&](bool with_gradients) {
      const at::AutoGradMode mode(with_gradients);
      return layer.layer->forward(x).detach();
    };
    const auto change = [&] {
      const at::NoGradGuard no_grad;
      Tensor weight = layer.layer->weight();
      weight.mul_(-1); // the largest value stays
    };
    layer.pass(4, 1);
    layer.update();
    const Tensor first = answer(true);
    change();
    EXPECT_EQ(at::equal(answer(true), first), kept);
    EXPECT_EQ(at::equal(answer(false), first), kept);
    layer.histories->begin_update();
    const Tensor evaluated = answer(false);
    EXPECT_TRUE(at::allclose(evaluated + first, 2 * layer.layer->bias()));
    EXPECT_TRUE(at::equal(answer(true), evaluated));
  }
}

TEST(Fp8History, IsABufferThatComesBack) {
  at::manual_seed(7);
  Kept kept({.history = 2});
  kept.pass(4, 1);
  kept.update();
  Kept other({.history = 2});
  other.histories->look();
  EXPECT_FALSE(other.histories->are_ready());
  ASSERT_TRUE(is_fp8_history(other.layer->named_buffers().front().key()));
  other.layer->named_buffers().front().value().copy_(
      kept.layer->named_buffers().front().value());
  other.histories->look();
  EXPECT_TRUE(other.histories->are_ready());
  expect_about(other.unit(Fp8History::input), 4.0 / 448);
}

} // namespace
} // namespace cairn::nn::fp8_history_test
