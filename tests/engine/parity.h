#pragma once

#include "engine/nets.h"

#include <cairn/engine/initialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// A small training through the engine, and the same as a plain libtorch loop
// that knows nothing of Cairn.

namespace cairn::testing {

using nlohmann::json;

constexpr int steps = 5;
constexpr std::int64_t micro = 2;

/// [micro, 9] tokens: the inputs and, one further, the targets.
inline at::Tensor tokens_of(int step, int number) {
  return at::remainder(
      at::arange(micro * 9, at::kLong).view({micro, 9}) * (7 + step) +
          number * 11 + step * 3,
      64);
}

struct Curve {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, at::Tensor> weights;
};

template <typename Net>
std::shared_ptr<Net> fresh() {
  torch::manual_seed(17);
  return std::make_shared<Net>();
}

/// The trained parameters, each once.
inline std::vector<at::Tensor> trained_parameters(
    const torch::nn::Module& net) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : net.parameters()) {
    const bool listed = std::ranges::any_of(result, [&](const at::Tensor& t) {
      return t.is_same(parameter);
    });
    if (parameter.requires_grad() && !listed) {
      result.push_back(parameter);
    }
  }
  return result;
}

/// An optimizer in a configuration, and the same one in libtorch.
struct Rule {
  json config;
  std::unique_ptr<torch::optim::Optimizer> (*plain)(std::vector<at::Tensor>);
};

inline Rule adamw() {
  return {
      {{"type", "AdamW"}, {"params", {{"lr", 1e-2}, {"weight_decay", 0.1}}}},
      [](std::vector<at::Tensor> parameters)
          -> std::unique_ptr<torch::optim::Optimizer> {
        return std::make_unique<torch::optim::AdamW>(
            std::move(parameters),
            torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
      }};
}

inline Rule sgd() {
  return {
      {{"type", "SGD"}, {"params", {{"lr", 0.05}, {"momentum", 0.9}}}},
      [](std::vector<at::Tensor> parameters)
          -> std::unique_ptr<torch::optim::Optimizer> {
        return std::make_unique<torch::optim::SGD>(
            std::move(parameters),
            torch::optim::SGDOptions(0.05).momentum(0.9));
      }};
}

/// Trains plainly in one process, with `passes` micro batches per step.
template <typename Net>
Curve reference(int passes, const Rule& rule = adamw()) {
  auto net = fresh<Net>();
  std::vector<at::Tensor> parameters = trained_parameters(*net);
  const auto optimizer = rule.plain(parameters);
  Curve curve;
  for (int step = 0; step < steps; ++step) {
    optimizer->zero_grad();
    double sum = 0;
    for (int pass = 0; pass < passes; ++pass) {
      const at::Tensor tokens = tokens_of(step, pass);
      const at::Tensor loss = token_loss(
          net->forward(tokens.narrow(1, 0, 8)),
          tokens.narrow(1, 1, 8));
      (loss / passes).backward();
      sum += loss.template item<double>() / passes;
    }
    // Parameters without a gradient take no step in libtorch, but one of weight
    // decay here.
    for (at::Tensor& parameter : parameters) {
      if (!parameter.grad().defined()) {
        parameter.mutable_grad() = at::zeros_like(parameter);
      }
    }
    curve.losses.push_back(sum);
    curve.norms.push_back(torch::nn::utils::clip_grad_norm_(parameters, 0.5));
    optimizer->step();
  }
  for (const auto& parameter : net->named_parameters()) {
    curve.weights[parameter.key()] = parameter.value().detach().clone();
  }
  return curve;
}

template <typename Net>
Curve trained(
    const distributed::World& world,
    const json& changes,
    int accumulation,
    std::optional<distributed::ProcessMesh> mesh = std::nullopt,
    const std::function<std::shared_ptr<Net>()>& make = fresh<Net>,
    bool same_use_in_all_passes = false) {
  const distributed::ProcessGroup group =
      mesh ? mesh->data_context() : world.group();
  json config{
      {"train_micro_batch_size_per_gpu", micro},
      {"gradient_accumulation_steps", accumulation},
      {"gradient_clipping", 0.5},
      {"optimizer", adamw().config},
      {"zero_optimization", {{"reduce_bucket_size", 800}}}};
  if (changes.contains("optimizer")) {
    config.erase("optimizer");
  }
  config.merge_patch(changes);
  auto net = make();
  auto [engine, optimizer, loader, schedule] = initialize(
      {.model = net,
       .mesh = mesh,
       .same_use_in_all_passes = same_use_in_all_passes,
       .config = config.dump(),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
  Curve curve;
  for (int step = 0; step < steps; ++step) {
    double sum = 0;
    for (int pass = 0; pass < accumulation; ++pass) {
      const at::Tensor tokens =
          tokens_of(step, group.rank() * accumulation + pass);
      const at::Tensor loss = token_loss(
          engine(tokens.narrow(1, 0, 8)),
          tokens.narrow(1, 1, 8).to(engine.device()));
      sum += loss.item<double>();
      engine.backward(loss);
      engine.step();
    }
    const at::Tensor total = at::full(
        {1},
        sum,
        at::TensorOptions(at::kDouble).device(engine.device()));
    sum = group.all_reduce(total).wait().item<double>();
    curve.losses.push_back(sum / (group.size() * accumulation));
    curve.norms.push_back(*engine.gradient_norm());
  }
  for (const auto& parameter : net->named_parameters()) {
    try {
      curve.weights[parameter.key()] =
          engine.full_parameter(parameter.key()).cpu();
    } catch (const UsageError&) { // another name of a listed one
    }
  }
  return curve;
}

inline void expect_close(
    const Curve& got,
    const Curve& wanted,
    double tolerance) {
  for (int step = 0; step < steps; ++step) {
    EXPECT_NEAR(got.losses[step], wanted.losses[step], tolerance)
        << "step " << step;
    EXPECT_NEAR(got.norms[step], wanted.norms[step], 10 * tolerance)
        << "step " << step;
  }
  for (const auto& [name, values] : got.weights) {
    if (name.ends_with("qkv.bias")) {
      continue; // softmax forgets the keys' bias: Adam follows noise there
    }
    EXPECT_LT(
        (values.to(at::kFloat) - wanted.weights.at(name))
            .abs()
            .max()
            .item<double>(),
        20 * tolerance)
        << name;
  }
}

inline void expect_equal(const Curve& got, const Curve& wanted) {
  EXPECT_EQ(got.losses, wanted.losses);
  for (const auto& [name, values] : got.weights) {
    EXPECT_TRUE(at::equal(values, wanted.weights.at(name))) << name;
  }
}

inline json stage(int number) {
  json zero{{"stage", number}};
  if (number == 3) {
    zero["stage3_param_persistence_threshold"] = 20;
    zero["stage3_max_live_parameters"] = 3000;
    zero["stage3_max_reuse_distance"] = 500;
    zero["stage3_prefetch_bucket_size"] = 1500;
  }
  return {{"zero_optimization", zero}};
}

} // namespace cairn::testing
