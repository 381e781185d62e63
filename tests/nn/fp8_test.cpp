// Layers in fp8, against the same layers in full precision. The tests run on a
// CPU, where fp8 is what libtorch makes of it, and on a GPU.
#include "kernels/internal/cuda/cuda.h"
#include "nn/fp8/fp8_gelu_mlp.h"
#include "nn/fp8/fp8_linear.h"
#include "nn/fp8/fp8_matrix.h"
#include "nn/fp8/fp8_product.h"
#include "nn/fp8/fp8_swiglu_mlp.h"
#include "nn/fp8/gpu_fp8_product.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/nn/mlp.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace cairn::nn::fp8_test {
namespace {

using at::Tensor;

const at::DeviceType device =
    kernels::cuda::has_kernels() ? at::kCUDA : at::kCPU;

Tensor parameter(at::IntArrayRef shape, double size) {
  return (at::randn(shape, at::TensorOptions(device)) * size)
      .to(at::kBFloat16)
      .requires_grad_();
}

/// Relative distance of two tensors, both seen as vectors.
double distance(const Tensor& found, const Tensor& expected) {
  const Tensor a = found.detach().to(at::kCPU, at::kDouble);
  const Tensor b = expected.detach().to(at::kCPU, at::kDouble);
  return ((a - b).norm() / b.norm()).item<double>();
}

std::vector<Tensor> in_double(const std::vector<Tensor>& all) {
  std::vector<Tensor> copies;
  for (const Tensor& each : all) {
    copies.push_back(each.detach().to(at::kCPU, at::kDouble).requires_grad_());
  }
  return copies;
}

/// Compares results and gradients. An element of e4m3 is off by up to 6%, on
/// average by 2.6%; e5m2 by twice that. Two products in a row add up, and so do
/// two results that are multiplied: `room` is for those.
template <class Found, class Expected>
void expect_close(
    const std::vector<Tensor>& inputs,
    const Found& found,
    const Expected& expected,
    double room = 1) {
  const std::vector<Tensor> exact = in_double(inputs);
  const Tensor result = found(inputs);
  const Tensor wanted = expected(exact);
  EXPECT_LT(distance(result, wanted), 0.07 * room);
  const Tensor weights = at::randn(wanted.sizes(), at::kDouble);
  (result * weights.to(result.options())).sum().backward();
  (wanted * weights).sum().backward();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(inputs[i].grad().scalar_type(), at::kBFloat16);
    EXPECT_LT(distance(inputs[i].grad(), exact[i].grad()), 0.1 * room);
  }
}

TEST(Fp8, LinearLayersAreCloseToExactOnes) {
  at::manual_seed(7);
  for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::hybrid}) {
    const std::vector<Tensor> inputs{
        parameter({3, 32, 64}, 1),
        parameter({128, 64}, 0.1),
        parameter({128}, 1)};
    expect_close(
        inputs,
        [&](const auto& x) {
          return fp8_linear(x[0], x[1], x[2], Fp8Use{format});
        },
        [](const auto& x) { return at::linear(x[0], x[1], x[2]); });
  }
}

TEST(Fp8, FeedForwardPartsAreCloseToExactOnes) {
  at::manual_seed(8);
  for (const auto kind : {GeluKind::exact, GeluKind::tanh}) {
    const std::vector<Tensor> inputs{
        parameter({2, 32, 64}, 1),
        parameter({256, 64}, 0.2),
        parameter({256}, 0.5),
        parameter({64, 256}, 0.1),
        parameter({64}, 0.5),
        parameter({2, 32, 64}, 1)};
    expect_close(
        inputs,
        [&](const auto& x) {
          return fp8_gelu_mlp(
              x[0],
              x[5],
              {x[1], x[2]},
              {x[3], x[4]},
              kind,
              {Fp8Format::hybrid},
              {Fp8Format::hybrid});
        },
        [&](const auto& x) {
          const Tensor wide = at::gelu(
              at::linear(x[0], x[1], x[2]),
              kind == GeluKind::exact ? "none" : "tanh");
          return x[5] + at::linear(wide, x[3], x[4]);
        });
  }
}

TEST(Fp8, FeedForwardPartsDoWithoutBiases) {
  at::manual_seed(9);
  const std::vector<Tensor> inputs{
      parameter({32, 64}, 1),
      parameter({256, 64}, 0.2),
      parameter({64, 256}, 0.1)};
  expect_close(
      inputs,
      [](const auto& x) {
        return fp8_gelu_mlp(
            x[0],
            {},
            {x[1], {}},
            {x[2], {}},
            GeluKind::tanh,
            {Fp8Format::e4m3},
            {Fp8Format::e4m3});
      },
      [](const auto& x) {
        return at::linear(at::gelu(at::linear(x[0], x[1]), "tanh"), x[2]);
      });
}

TEST(Fp8, GatedFeedForwardPartsAreCloseToExactOnes) {
  at::manual_seed(13);
  for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::hybrid}) {
    for (const bool adds : {true, false}) {
      std::vector<Tensor> inputs{
          parameter({2, 24, 48}, 1),
          parameter({80, 48}, 0.2),
          parameter({80, 48}, 0.2),
          parameter({48, 80}, 0.1)};
      if (adds) {
        inputs.push_back(parameter({2, 24, 48}, 1));
      }
      expect_close(
          inputs,
          [&](const auto& x) {
            return fp8_swiglu_mlp(
                x[0],
                adds ? x[4] : Tensor(),
                {.gate = x[1], .up = x[2], .down = x[3]},
                {{format}, {format}, {format}});
          },
          [&](const auto& x) {
            const Tensor wide =
                at::silu(at::linear(x[0], x[1])) * at::linear(x[0], x[2]);
            const Tensor y = at::linear(wide, x[3]);
            return adds ? x[4] + y : y;
          },
          /*room=*/1.3);
    }
  }
}

TEST(Fp8, ProductsAreTheGpusWhereThereIsOne) {
  at::manual_seed(12);
  const bool on_gpu = device == at::kCUDA;
  const Fp8Matrix left =
      to_fp8({parameter({64, 128}, 1)}, at::kFloat8_e5m2, Fp8Order::rows);
  const Fp8Matrix right =
      to_fp8({parameter({32, 128}, 1)}, fp8_of_values, Fp8Order::rows);
  const auto exact = [](const Fp8Matrix& x) {
    return x.rows.to(at::kCPU, at::kFloat) * x.unit.to(at::kCPU);
  };
  const Tensor wanted = exact(left).mm(exact(right).t());
  const Tensor bias = parameter({32}, 1).detach();
  const Tensor addend = parameter({64, 32}, 1).detach();
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    const Fp8Result result{type, /*exact_sums=*/true};
    EXPECT_EQ(
        gpu_fp8_product(left.by_rows(), right.by_rows(), {}, result)
            .has_value(),
        on_gpu);
    EXPECT_LT(
        distance(
            fp8_product(
                left.by_rows(),
                right.by_rows(),
                {bias.to(type), addend.to(type)},
                result),
            wanted + bias.to(at::kCPU, at::kFloat) +
                addend.to(at::kCPU, at::kFloat)),
        5e-3);
    const Tensor sum = at::zeros({64, 32}, bias.options().dtype(type));
    for (const Into how : {Into::overwrite, Into::add}) {
      EXPECT_EQ(
          gpu_fp8_product_into(sum, left.by_rows(), right.by_rows(), how),
          on_gpu);
    }
    if (on_gpu) {
      EXPECT_LT(distance(sum, wanted * 2), 5e-3);
    }
  }
}

TEST(Fp8, MatricesThatDoNotFitAreMultipliedIn16Bits) {
  at::manual_seed(10);
  const Tensor x = parameter({3, 5, 64}, 1); // 15 rows
  const Tensor weight = parameter({32, 64}, 0.1);
  EXPECT_LT(
      distance(
          fp8_linear(x, weight, {}, Fp8Use{Fp8Format::hybrid}),
          at::linear(x.to(at::kFloat), weight.to(at::kFloat))),
      4e-3);
}

TEST(Fp8, LayersAreBuiltWithIt) {
  at::manual_seed(11);
  const auto mlp_with = [](std::optional<Fp8Format> fp8, bool gated) {
    return std::make_shared<Mlp>(
        LayerContext{.dtype = at::kBFloat16, .device = device, .fp8 = fp8},
        MlpOptions{.hidden = 64, .ffn = 128, .gated = gated, .bias = !gated});
  };
  const Tensor x = parameter({2, 16, 64}, 1);
  for (const bool gated : {false, true}) {
    const Tensor plain = mlp_with(std::nullopt, gated)->forward(x);
    const Tensor rounded = mlp_with(Fp8Format::hybrid, gated)->forward(x);
    EXPECT_GT(distance(rounded, plain), 5e-3); // it is fp8
    EXPECT_LT(distance(rounded, plain), 0.1);
  }
}

} // namespace
} // namespace cairn::nn::fp8_test
