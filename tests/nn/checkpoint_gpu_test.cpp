// Checkpoints on one GPU: its random numbers, and inputs that wait on the CPU.

#include <cairn/nn/checkpoint.h>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/autocast_mode.h>
#include <cairn/config/training_config.h>
#include <gtest/gtest.h>

#include <vector>

namespace cairn::nn::checkpoint_gpu_test {
namespace {

using at::Tensor;
using config::ActivationCheckpointingConfig;

const auto gpu = at::TensorOptions().device(at::kCUDA);

CheckpointOptions options_of(const ActivationCheckpointingConfig& config) {
  return CheckpointOptions::from(config, distributed::ProcessGroup());
}

Tensor layer(const Tensor& x, const Tensor& weight) {
  return at::dropout(at::gelu(x.matmul(weight)), 0.3, true);
}

std::vector<Tensor> weights_of(int layers, std::int64_t width) {
  at::manual_seed(5);
  std::vector<Tensor> weights;
  for (int i = 0; i < layers; ++i) {
    weights.push_back(
        (at::randn({width, width}, gpu) / 8).requires_grad_(true));
  }
  return weights;
}

std::vector<Tensor> step(
    const std::vector<Tensor>& weights,
    const CheckpointOptions* options) {
  at::manual_seed(6);
  const std::int64_t width = weights[0].size(0);
  const Tensor x = at::randn({256, width}, gpu).requires_grad_(true);
  Tensor h = x * 1;
  for (Tensor each : weights) {
    each.mutable_grad() = Tensor();
    h = options ? checkpoint(*options, layer, h, each) : layer(h, each);
  }
  (h * h).sum().backward();
  std::vector<Tensor> traces{
      h.detach(),
      x.grad(),
      at::rand({4}),
      at::rand({4}, gpu)};
  for (const Tensor& each : weights) {
    traces.push_back(each.grad().clone());
  }
  return traces;
}

void expect_as_plain(const CheckpointOptions& options) {
  const std::vector<Tensor> weights = weights_of(6, 64);
  const std::vector<Tensor> plain = step(weights, nullptr);
  for (int again = 0; again < 3; ++again) {
    const std::vector<Tensor> checkpointed = step(weights, &options);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      EXPECT_TRUE(at::equal(plain[i], checkpointed[i])) << i;
    }
  }
}

TEST(CheckpointGpu, DropoutIsTheSame) {
  expect_as_plain({});
}

TEST(CheckpointGpu, InputsWaitOnTheCpu) {
  expect_as_plain(options_of({.cpu_checkpointing = true}));
  expect_as_plain(options_of(
      {.cpu_checkpointing = true,
       .contiguous_memory_optimization = true,
       .number_checkpoints = 6}));
}

TEST(CheckpointGpu, BoundariesWait) {
  expect_as_plain(options_of({.synchronize_checkpoint_boundary = true}));
}

TEST(CheckpointGpu, OffloadFreesTheGpu) {
  constexpr std::int64_t width = 1024;
  constexpr double activation = 256 * width * sizeof(float);
  const std::vector<Tensor> weights = weights_of(16, width);
  const auto held = [&](const CheckpointOptions& options) {
    Tensor h = at::randn({256, width}, gpu).requires_grad_(true) * 1;
    for (const Tensor& each : weights) {
      h = checkpoint(options, layer, h, each);
    }
    at::accelerator::synchronizeDevice(0);
    // Memory that waited for the copies goes back at the next allocation.
    at::empty({width}, gpu);
    const auto stats = at::accelerator::getDeviceStats(0);
    return static_cast<double>(stats.allocated_bytes[0].current);
  };
  const double kept = held({});
  const double offloaded = held(options_of({.cpu_checkpointing = true}));
  EXPECT_GT(kept - offloaded, 14 * activation);
}

TEST(CheckpointGpu, AutocastAsInForward) {
  const std::vector<Tensor> weights = weights_of(1, 64);
  const auto run = [&](bool checkpointed) {
    at::manual_seed(6);
    Tensor weight = weights[0];
    weight.mutable_grad() = Tensor();
    const Tensor x = at::randn({32, 64}, gpu);
    at::autocast::set_autocast_enabled(at::kCUDA, true);
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    const Tensor y =
        checkpointed ? checkpoint(layer, x, weight) : layer(x, weight);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCUDA, false);
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
    y.to(at::kFloat).sum().backward();
    return weight.grad().clone();
  };
  EXPECT_TRUE(at::equal(run(false), run(true)));
}

} // namespace
} // namespace cairn::nn::checkpoint_gpu_test
