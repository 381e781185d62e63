#pragma once

#include "engine/parity.h"

#include <cairn/nn/mixture.h>
#include <cairn/zero/init.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/batchnorm.h>

#include <memory>
#include <utility>

// Nets that are born within zero::Init, and what holds for them on CPUs and on
// GPUs.

namespace cairn::init_training {

using testing::Curve;
using testing::json;
using testing::TinyGpt;

/// So few elements that the nets here never fit.
constexpr std::int64_t few = 400;

inline std::size_t whole_bytes(const at::Tensor& tensor) {
  return tensor.storage().nbytes();
}

template <typename Net>
std::shared_ptr<Net> born(
    const distributed::World& world,
    zero::InitOptions options = {.max_live_parameters = few}) {
  options.world = world;
  const zero::Init scope(std::move(options));
  return testing::fresh<Net>();
}

/// Everything that modules do to their parameters after making them.
struct Restless : torch::nn::Module {
  Restless() {
    embedding = register_module("embedding", torch::nn::Embedding(64, 12));
    for (int i = 0; i < 4; ++i) {
      layers->push_back(torch::nn::Linear(12, 12));
    }
    register_module("layers", layers);
    norm = register_module("norm", torch::nn::BatchNorm1d(12));
    big_buffer = register_buffer("big_buffer", at::randn({40, 40}));
    gain = register_parameter("gain", at::randn({12, 12}) * 0.1);
    frozen = register_parameter("frozen", at::randn({12, 12}), false);
    apply([](torch::nn::Module& module) {
      if (auto* linear = module.as<torch::nn::Linear>()) {
        torch::nn::init::normal_(linear->weight, 0, 0.3);
        torch::nn::init::zeros_(linear->bias);
      }
    });
    head = register_module("head", torch::nn::Linear(12, 64));
    const torch::NoGradGuard no_grad;
    head->weight.copy_(embedding->weight * 0.5); // long after it was made
    gain.add_(embedding->weight.narrow(0, 0, 12));
    layers[0]->as<torch::nn::Linear>()->weight.requires_grad_(false);
    to(at::kDouble); // other memory for all of them
    to(at::kFloat);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    at::Tensor x = embedding(tokens);
    for (const auto& layer : *layers) {
      x = at::tanh(layer->as<torch::nn::Linear>()->forward(x));
    }
    x = norm(x.flatten(0, 1)).view_as(x);
    x = at::matmul(x, gain) + at::matmul(x, frozen);
    return head(x) + big_buffer.mean().to(x.scalar_type());
  }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::ModuleList layers;
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear head{nullptr};
  at::Tensor big_buffer, gain, frozen;
};

/// A net with experts that the ranks of a mesh divide.
struct ExpertNet : torch::nn::Module {
  explicit ExpertNet(const distributed::ProcessMesh& mesh) {
    embedding = register_module("embedding", torch::nn::Embedding(64, 12));
    mixture = register_module(
        "mixture",
        std::make_shared<nn::Mixture>(
            nn::LayerContext{
                .expert_group = mesh.along(distributed::Axis::expert),
                .path = "mixture"},
            nn::MixtureOptions{
                .expert = {.hidden = 12, .ffn = 20},
                .experts = 4}));
    head = register_module("head", torch::nn::Linear(12, 64));
  }
  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor x = embedding(tokens);
    return head(x + mixture->forward(x).hidden);
  }
  torch::nn::Embedding embedding{nullptr};
  std::shared_ptr<nn::Mixture> mixture;
  torch::nn::Linear head{nullptr};
};

/// Compares a curve with the one that is wanted.
using Expect = void (*)(const Curve& got, const Curve& wanted);

template <typename Net>
void trains_the_same(
    const distributed::World& world,
    const json& changes,
    Expect expect) {
  const Curve wanted = testing::trained<Net>(world, changes, 1);
  for (const std::int64_t live :
       {std::int64_t{0}, few, std::int64_t{1} << 30}) {
    SCOPED_TRACE(::testing::Message() << live << " elements live");
    const Curve got = testing::trained<Net>(world, changes, 1, {}, [&] {
      return born<Net>(world, {.max_live_parameters = live});
    });
    expect(got, wanted);
  }
}

/// `expert` of the ranks share the experts.
inline void experts_train_the_same(
    const distributed::World& world,
    int expert,
    Expect expect) {
  const distributed::ProcessMesh mesh(
      world.group(),
      {.data = world.size(), .expert = expert});
  const auto fresh = [&] {
    torch::manual_seed(17);
    return std::make_shared<ExpertNet>(mesh);
  };
  for (const int number : {0, 3}) {
    const json changes = testing::stage(number);
    const Curve wanted =
        testing::trained<ExpertNet>(world, changes, 1, mesh, fresh);
    for (const std::int64_t live : {std::int64_t{0}, few}) {
      const Curve got =
          testing::trained<ExpertNet>(world, changes, 1, mesh, [&] {
            const zero::Init scope(
                {.world = world, .mesh = mesh, .max_live_parameters = live});
            return fresh();
          });
      expect(got, wanted);
    }
  }
}

inline void first_ranks_values_count(const distributed::World& world) {
  const auto net = testing::fresh<Restless>();
  std::shared_ptr<Restless> mine;
  {
    const zero::Init scope({.world = world, .max_live_parameters = few});
    torch::manual_seed(17 + static_cast<std::uint64_t>(world.rank()));
    mine = std::make_shared<Restless>();
  }
  for (const auto& parameter : mine->named_parameters()) {
    if (parameter.key() != "frozen") { // never required a gradient
      EXPECT_TRUE(at::equal(
          parameter.value(),
          net->named_parameters()[parameter.key()]))
          << parameter.key();
    }
  }
}

/// Before initialize() the model can be used, and rests again.
inline void comes_back_when_used(const distributed::World& world) {
  const auto wanted = testing::fresh<TinyGpt>();
  const auto net = born<TinyGpt>(world);
  for (const at::Tensor& parameter : net->parameters()) {
    EXPECT_EQ(whole_bytes(parameter), 0U);
  }
  const at::Tensor tokens = testing::tokens_of(0, 0).narrow(1, 0, 8);
  for (const auto& model : {wanted, net}) {
    testing::token_loss(model->forward(tokens), tokens).backward();
  }
  for (const auto& parameter : net->named_parameters()) {
    EXPECT_TRUE(at::equal(
        parameter.value().grad(),
        wanted->named_parameters()[parameter.key()].grad()))
        << parameter.key();
  }
  std::int64_t whole = 0;
  for (const at::Tensor& parameter : net->parameters()) {
    whole += whole_bytes(parameter) == 0 ? 0 : parameter.numel();
  }
  EXPECT_LE(whole, few + 64 * 16); // the last one used may be whole too
}

} // namespace cairn::init_training
