// Outputs of norms, and of experts' activations, that backward computes again
// on a GPU.

#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <cairn/nn/block.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <functional>
#include <vector>

namespace cairn::nn::filled_again_gpu_test {
namespace {

using at::Tensor;

constexpr std::int64_t hidden = 256;
constexpr std::int64_t tokens = 128;
constexpr std::int64_t ffn = 4 * hidden;

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

double allocated() {
  const auto stats = at::accelerator::getDeviceStats(0);
  return static_cast<double>(stats.allocated_bytes[0].current);
}

/// What a pass leaves behind.
struct Pass {
  Tensor output;
  std::vector<Tensor> gradients; ///< of the input, then of the parameters
  double kept = 0;               ///< bytes from forward to backward
};

template <typename Module, typename Options>
Pass pass_of(const Options& options, at::Device device, at::ScalarType type) {
  LayerContext context;
  context.device = device;
  context.dtype = type;
  context.initial = InitialWeights{.seed = 7, .std = 0.05, .output_std = 0.05};
  Module module(context, options);
  torch::manual_seed(3);
  const Tensor x =
      at::randn({2, tokens, hidden}).to(device, type).requires_grad_();
  const double before = allocated();
  Tensor hidden_states;
  if constexpr (std::is_same_v<Module, Block>) {
    hidden_states = module.forward(x, {}).hidden;
  } else {
    hidden_states = module.forward(x).hidden;
  }
  Pass pass{.output = hidden_states.detach(), .kept = allocated() - before};
  hidden_states.backward(at::randn(x.sizes()).to(device, type));
  pass.gradients.push_back(x.grad());
  for (const Tensor& parameter : module.parameters()) {
    pass.gradients.push_back(parameter.grad());
  }
  return pass;
}

TEST(FilledAgainGpu, Norms) {
  on_gpu([](at::Device device) {
    for (const auto kind :
         {model::NormKind::layer_norm, model::NormKind::rms_norm}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        SCOPED_TRACE(type);
        BlockOptions options;
        options.attention = {
            .hidden = hidden,
            .heads = 4,
            .key_value_heads = 4,
            .head_size = 64};
        options.mlp = {.hidden = hidden, .ffn = ffn};
        options.norm.kind = kind;
        pass_of<Block>(options, device, type); // chooses algorithms
        const Pass kept = pass_of<Block>(options, device, type);
        options.recompute_norms = true;
        const Pass again = pass_of<Block>(options, device, type);
        EXPECT_TRUE(at::equal(kept.output, again.output));
        for (std::size_t i = 0; i < kept.gradients.size(); ++i) {
          if (!kept.gradients[i].defined()) {
            continue;
          }
          // Gradients of attention are added up in any order.
          EXPECT_TRUE(at::allclose(
              kept.gradients[i].to(at::kFloat),
              again.gradients[i].to(at::kFloat),
              1e-2,
              1e-3))
              << i;
        }
        EXPECT_NEAR(
            kept.kept - again.kept,
            static_cast<double>(
                2 * 2 * tokens * hidden * c10::elementSize(type)),
            4096);
      }
    }
  });
}

TEST(FilledAgainGpu, ActivationsOfExperts) {
  on_gpu([](at::Device device) {
    for (const bool drop_tokens : {true, false}) {
      SCOPED_TRACE(drop_tokens);
      MixtureOptions options{
          .expert =
              {.hidden = hidden,
               .ffn = ffn,
               .activation = model::ActivationKind::gelu_tanh},
          .experts = 4,
          .routing = {.top_k = 2, .drop_tokens = drop_tokens}};
      pass_of<Mixture>(options, device, at::kBFloat16);
      const Pass kept = pass_of<Mixture>(options, device, at::kBFloat16);
      options.activated = Activated::computed_again;
      const Pass again = pass_of<Mixture>(options, device, at::kBFloat16);
      EXPECT_TRUE(at::equal(kept.output, again.output));
      for (std::size_t i = 0; i < kept.gradients.size(); ++i) {
        if (kept.gradients[i].defined()) {
          EXPECT_TRUE(at::equal(kept.gradients[i], again.gradients[i])) << i;
        }
      }
      // Two choices of each token, in 16 bits.
      EXPECT_NEAR(
          kept.kept - again.kept,
          2. * 2 * tokens * ffn * 2,
          2. * tokens * ffn);
    }
  });
}

} // namespace
} // namespace cairn::nn::filled_again_gpu_test
