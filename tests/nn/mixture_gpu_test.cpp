#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/nn/mixture.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

// A mixture of experts on a GPU against one on the CPU.

namespace cairn::nn::mixture_gpu_test {
namespace {

using at::Tensor;

constexpr std::int64_t hidden = 32;
constexpr std::int64_t experts = 8;

/// Runs on a GPU in a child: this process forks again.
void on_gpu(const std::function<void(at::Device)>& body) {
  testing::run_ranks(
      {.ranks = 1, .backend = distributed::BackendChoice::automatic},
      [&](const distributed::World& world) {
        const at::Device device(world.device_name());
        ASSERT_TRUE(device.is_cuda());
        body(device);
      });
}

struct Kind {
  std::string name;
  RoutingOptions routing{};
  bool residual = false;
  bool gated = false;
};

/// Some of these drop tokens, where there is too little room.
std::vector<Kind> kinds() {
  const RoutingOptions one{.top_k = 1, .capacity_factor = 1, .min_capacity = 2};
  const RoutingOptions two{.top_k = 2, .capacity_factor = 1, .min_capacity = 2};
  const RoutingOptions three{
      .top_k = 3,
      .capacity_factor = 1,
      .min_capacity = 2};
  const RoutingOptions all{.top_k = 1, .drop_tokens = false};
  const RoutingOptions all_three{.top_k = 3, .drop_tokens = false};
  return {
      {.name = "top 1", .routing = one},
      {.name = "top 2", .routing = two},
      {.name = "top 2, gated", .routing = two, .gated = true},
      {.name = "residual", .routing = one, .residual = true},
      {.name = "top 3", .routing = three},
      {.name = "none dropped", .routing = all},
      {.name = "top 3, none dropped", .routing = all_three},
      {.name = "top 3, none dropped, gated",
       .routing = all_three,
       .gated = true}};
}

MixtureOptions options_of(const Kind& kind) {
  return {
      .expert = {.hidden = hidden, .ffn = 48, .gated = kind.gated},
      .experts = experts,
      .routing = kind.routing,
      .residual = kind.residual};
}

LayerContext context_of(at::Device device, at::ScalarType dtype) {
  return {
      .dtype = dtype,
      .device = device,
      .initial = InitialWeights{.std = 0.2, .output_std = 0.2}};
}

using Named = std::vector<std::pair<std::string, Tensor>>;

/// The output, the loss and every gradient, as fp32 on the CPU.
Named results_of(const Kind& kind, at::Device device, at::ScalarType dtype) {
  Mixture mixture(context_of(device, dtype), options_of(kind));
  torch::manual_seed(7);
  const auto made = [&] {
    return at::randn({2, 24, hidden}).to(dtype).to(device);
  };
  const Tensor x = made().requires_grad_();
  const Tensor outer = made();
  const Mixture::Output output = mixture.forward(x);
  EXPECT_EQ(output.hidden.device(), x.device());
  EXPECT_EQ(output.hidden.scalar_type(), dtype);
  EXPECT_EQ(output.balance_loss.scalar_type(), at::kFloat);
  ((output.hidden * outer).to(at::kFloat).sum() + 3 * output.balance_loss)
      .backward();
  Named results{
      {"output", output.hidden},
      {"balance loss", output.balance_loss},
      {"input's gradient", x.grad()}};
  for (const auto& parameter : mixture.named_parameters()) {
    results.emplace_back(parameter.key(), parameter.value().grad());
  }
  for (auto& [name, tensor] : results) {
    EXPECT_TRUE(tensor.defined()) << name;
    tensor = tensor.detach().to(at::kFloat).cpu();
  }
  return results;
}

void expect_as_on_cpu(
    const Kind& kind,
    at::Device device,
    at::ScalarType dtype,
    double near) {
  const Named wanted = results_of(kind, at::kCPU, dtype);
  const Named got = results_of(kind, device, dtype);
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Tensor& there = wanted[i].second;
    const double size = there.abs().max().item<double>();
    const double off = (got[i].second - there).abs().max().item<double>();
    EXPECT_GT(size, 0) << wanted[i].first;
    EXPECT_LE(off, near * size) << wanted[i].first; // also if it is NaN
  }
}

TEST(MixtureGpu, IsAsOnTheCpu) {
  on_gpu([](at::Device device) {
    for (const Kind& kind : kinds()) {
      SCOPED_TRACE(kind.name);
      expect_as_on_cpu(kind, device, at::kFloat, 1e-4);
    }
  });
}

/// Scores are fp32 here too, so tokens go to the same experts.
TEST(MixtureGpu, SixteenBitsStayNear) {
  on_gpu([](at::Device device) {
    for (const Kind& kind : kinds()) {
      SCOPED_TRACE(kind.name);
      expect_as_on_cpu(kind, device, at::kBFloat16, 3e-2);
    }
  });
}

/// Draws from the GPU's own generator: the same seed gives the same again.
TEST(MixtureGpu, DrawsThere) {
  on_gpu([](at::Device device) {
    const RoutingOptions one{.random_selection = true, .sample_first = true};
    const RoutingOptions two{.top_k = 2, .sample_second = true};
    for (const RoutingOptions& routing : {one, two}) {
      MixtureOptions options = options_of({.routing = routing});
      options.jitter = 0.01;
      const Mixture mixture(context_of(device, at::kBFloat16), options);
      const Tensor x = at::randn({4, 64, hidden}).to(at::kBFloat16).to(device);
      const at::NoGradGuard no_grad;
      const auto drawn = [&](std::uint64_t seed) {
        torch::manual_seed(seed);
        const Tensor output = mixture.forward(x).hidden;
        EXPECT_TRUE(output.isfinite().all().item<bool>());
        return output;
      };
      EXPECT_TRUE(at::equal(drawn(1), drawn(1)));
      EXPECT_FALSE(at::equal(drawn(1), drawn(2)));
    }
  });
}

} // namespace
} // namespace cairn::nn::mixture_gpu_test
