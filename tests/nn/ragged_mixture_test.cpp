#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <cairn/base/error.h>
#include <cairn/nn/mixture.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <map>
#include <string>

// Mixtures that drop no token, against all experts on all tokens in double.

namespace cairn::nn::ragged_mixture_test {
namespace {

using at::Tensor;
using testing::run_ranks;

constexpr std::int64_t hidden = 6;

struct Case {
  std::int64_t top_k;
  std::int64_t tokens;
  std::int64_t experts;
  bool gated = false;
  bool bias = true;
};

MixtureOptions options_of(const Case& c) {
  return {
      .expert =
          {.hidden = hidden,
           .ffn = 8,
           .activation = c.gated ? model::ActivationKind::silu
                                 : model::ActivationKind::gelu,
           .gated = c.gated,
           .bias = c.bias},
      .experts = c.experts,
      .routing = {.top_k = c.top_k, .drop_tokens = false}};
}

LayerContext context_of(const distributed::ProcessGroup& group) {
  return {
      .group = group,
      .initial = InitialWeights{.std = 0.5, .output_std = 0.5}};
}

/// Gives every bias a value: they begin as zeros.
void set_biases(Mixture& mixture) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : mixture.named_parameters()) {
    if (parameter.key().ends_with("bias")) {
      parameter.value().copy_(
          at::sin(at::arange(parameter.value().numel(), at::kFloat))
              .view_as(parameter.value()));
    }
  }
}

using Named = std::map<std::string, Tensor>;

/// Weight of each expert for each token, [tokens, experts].
Tensor weights_of(const Tensor& scores, std::int64_t top_k) {
  const Tensor gates = at::softmax(scores, 1);
  const Tensor best = std::get<1>(at::topk(gates.detach(), top_k, 1));
  const Tensor kept =
      gates * at::zeros_like(gates).scatter_(1, best, 1).detach();
  return top_k == 1 ? kept : kept / kept.sum(1, true);
}

/// The output and all gradients.
Named plain(const Mixture& mixture, const Case& c, const Tensor& given) {
  Named p;
  for (const auto& parameter : mixture.named_parameters()) {
    p[parameter.key()] =
        parameter.value().detach().to(at::kDouble).requires_grad_();
  }
  const Tensor x = given.detach().to(at::kDouble).requires_grad_();
  const Tensor flat = x.view({-1, hidden});
  const Tensor weights =
      weights_of(flat.mm(p.at("router.weight").t()), c.top_k);
  Tensor sum = at::zeros_like(flat);
  for (std::int64_t e = 0; e < c.experts; ++e) {
    const auto linear = [&](const Tensor& rows, const std::string& name) {
      const Tensor result = rows.mm(p.at("experts." + name + ".weight")[e].t());
      return c.bias ? result + p.at("experts." + name + ".bias")[e] : result;
    };
    const Tensor wide = c.gated
        ? at::silu(linear(flat, "gate")) * linear(flat, "up")
        : at::gelu(linear(flat, "up"));
    sum = sum + linear(wide, "down") * weights.narrow(1, e, 1);
  }
  const Tensor outer =
      at::cos(at::arange(sum.numel(), at::kDouble)).view_as(sum);
  (sum * outer).sum().backward();
  Named all{{"output", sum.detach().view_as(x)}, {"x", x.grad()}};
  for (const auto& [name, value] : p) {
    all[name] = value.grad();
  }
  return all;
}

Named trained(Mixture& mixture, const Tensor& given) {
  const Tensor x = given.detach().clone().requires_grad_();
  const Tensor output = mixture.forward(x).hidden;
  const Tensor outer =
      at::cos(at::arange(output.numel(), at::kDouble)).view_as(output);
  (output * outer.to(at::kFloat)).sum().backward();
  Named all{{"output", output.detach()}, {"x", x.grad()}};
  for (const auto& parameter : mixture.named_parameters()) {
    all[parameter.key()] = parameter.value().grad();
  }
  return all;
}

void expect_near(const Named& found, const Named& wanted) {
  for (const auto& [name, value] : wanted) {
    EXPECT_TRUE(at::allclose(found.at(name).to(at::kDouble), value, 1e-4, 1e-5))
        << name;
  }
}

TEST(RaggedMixture, IsAllExpertsOnAllTokens) {
  for (const Case& c :
       {Case{.top_k = 1, .tokens = 13, .experts = 4},
        Case{.top_k = 1, .tokens = 3, .experts = 16}, // most get nothing
        Case{.top_k = 2, .tokens = 17, .experts = 5},
        Case{.top_k = 2, .tokens = 9, .experts = 3, .bias = false},
        Case{.top_k = 3, .tokens = 11, .experts = 6, .gated = true},
        Case{.top_k = 8, .tokens = 1, .experts = 12},
        Case{.top_k = 8, .tokens = 19, .experts = 32, .gated = true}}) {
    SCOPED_TRACE(c.top_k * 10000 + c.tokens * 100 + c.experts);
    torch::manual_seed(c.tokens);
    Mixture mixture(context_of({}), options_of(c));
    set_biases(mixture);
    const Tensor x = at::randn({1, c.tokens, hidden});
    expect_near(trained(mixture, x), plain(mixture, c, x));
  }
}

/// With parts of experts on two ranks, biases of the second product are added
/// once.
TEST(RaggedMixture, IsTheSameWithPartsOfExperts) {
  const Case c{.top_k = 3, .tokens = 12, .experts = 5};
  const auto results = [&](const distributed::ProcessGroup& group) {
    torch::manual_seed(2);
    Mixture mixture(context_of(group), options_of(c));
    const at::NoGradGuard no_grad;
    for (auto& parameter : mixture.named_parameters()) {
      if (parameter.key() == "experts.down.bias") {
        parameter.value().fill_(0.25);
      }
    }
    const at::AutoGradMode with_gradients(true);
    const Named all = trained(mixture, at::randn({1, c.tokens, hidden}));
    return std::vector{
        all.at("output"),
        all.at("x"),
        all.at("experts.down.bias"),
        all.at("router.weight")};
  };
  const std::vector<Tensor> alone = results({});
  run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    const std::vector<Tensor> parts = results(world.group());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_TRUE(at::allclose(parts[i], alone[i], 1e-4, 1e-5)) << i;
    }
  });
}

TEST(RaggedMixture, ComputesUnderAutocast) {
  const Case c{.top_k = 3, .tokens = 12, .experts = 5};
  torch::manual_seed(2);
  Mixture mixture(context_of({}), options_of(c));
  set_biases(mixture);
  const Tensor x = at::randn({1, c.tokens, hidden});
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Tensor found = mixture.forward(x).hidden.detach();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_TRUE(at::allclose(
      found.to(at::kDouble),
      plain(mixture, c, x).at("output"),
      5e-2,
      5e-2));
}

TEST(Experts, RefuseGroupsWhereRanksShareThem) {
  run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    const Experts experts(
        {.expert_group = world.group()},
        {.hidden = 4, .ffn = 4},
        2);
    EXPECT_THROW(
        experts.forward(at::rand({3, 4}), {at::tensor({1, 3}, at::kInt)}),
        UsageError);
  });
}

} // namespace
} // namespace cairn::nn::ragged_mixture_test
