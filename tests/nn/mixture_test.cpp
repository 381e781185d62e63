#include "support/error_text.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <cairn/base/error.h>
#include <cairn/nn/mixture.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

// Gates and layers of experts against DeepSpeed's results, for every way of
// dividing the experts.

namespace cairn::nn::mixture_test {
namespace {

using at::Tensor;
using nlohmann::json;
using ::testing::HasSubstr;
using testing::run_ranks;

const json& golden() {
  static const json all = [] {
    std::ifstream in(CAIRN_GOLDEN_DIR "/moe/gates.json");
    return json::parse(in);
  }();
  return all;
}

Tensor floats(const json& numbers) {
  std::vector<float> values;
  for (const json& number : numbers) {
    values.push_back(number.get<float>());
  }
  return at::tensor(values);
}

Tensor waves(at::IntArrayRef shape, double step) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  return (at::sin(at::arange(count, at::kFloat) * step) * 0.5).view(shape);
}

/// Gives every number another weight.
Tensor weighed(const Tensor& x) {
  return (x * at::cos(at::arange(x.numel(), at::kFloat)).view(x.sizes())).sum();
}

RoutingOptions options_of(const json& given) {
  return {
      .top_k = given.at("top_k"),
      .capacity_factor = given.at("capacity_factor"),
      .min_capacity = given.at("min_capacity"),
      .drop_tokens = given.value("drop_tokens", true),
      .random_selection = given.value("use_rts", false),
      .sample_second = given.value("sampling", false),
      .sample_first = given.value("noisy_gate_policy", "None") == "RSample"};
}

TEST(Routing, IsDeepSpeeds) {
  ASSERT_EQ(golden().at("gates").size(), 8U);
  for (const json& wanted : golden().at("gates")) {
    SCOPED_TRACE(wanted.at("name").get<std::string>());
    const std::int64_t tokens = wanted.at("tokens");
    const std::int64_t experts = wanted.at("experts_in_all");
    const Tensor scores =
        (at::sin(at::arange(tokens * experts, at::kFloat) * 1.7) * 2)
            .view({tokens, experts})
            .requires_grad_();
    torch::manual_seed(1234);
    const Routes routes = route(scores, options_of(wanted.at("options")), {});
    ASSERT_EQ(routes.capacity, wanted.at("capacity").get<std::int64_t>());
    EXPECT_NEAR(routes.balance_loss.item<double>(), wanted.at("loss"), 1e-6);
    for (std::int64_t e = 0; e < experts; ++e) {
      EXPECT_EQ(
          routes.counts[e].item<std::int64_t>(),
          wanted.at("counts").at(static_cast<std::size_t>(e)));
    }
    bool any_dropped = false;
    for (std::int64_t r = 0; r < routes.slots.size(0); ++r) {
      for (std::int64_t t = 0; t < tokens; ++t) {
        const auto of = [&](const char* name) -> const json& {
          return wanted.at(name)
              .at(static_cast<std::size_t>(r))
              .at(static_cast<std::size_t>(t));
        };
        const std::int64_t expert = of("experts");
        any_dropped |= expert < 0;
        EXPECT_EQ(
            routes.slots[r][t].item<std::int64_t>(),
            expert < 0
                ? experts * routes.capacity
                : expert * routes.capacity + of("places").get<std::int64_t>());
        EXPECT_NEAR(routes.weights[r][t].item<double>(), of("weights"), 1e-6);
      }
    }
    const std::string name = wanted.at("name");
    EXPECT_EQ(
        any_dropped,
        name == "top1_random_selection" || name == "top2" ||
            name == "top2_sampled");
    (weighed(routes.weights) + 3 * routes.balance_loss).backward();
    EXPECT_TRUE(at::allclose(
        scores.grad().flatten(),
        floats(wanted.at("gradient")),
        1e-4,
        1e-6));
  }
}

TEST(Routing, WithoutChanceDropsTheLast) {
  const Tensor scores = at::zeros({6, 2});
  scores.select(1, 0).fill_(1); // all tokens want the first
  const Routes routes =
      route(scores, {.capacity_factor = 1, .min_capacity = 1}, {});
  EXPECT_EQ(routes.capacity, 3);
  EXPECT_TRUE(
      at::equal(routes.slots[0], at::tensor({0, 1, 2, 6, 6, 6}, at::kLong)));
  EXPECT_EQ(routes.weights[0][4].item<float>(), 0);
  EXPECT_EQ(routes.counts[0].item<std::int64_t>(), 6);
}

TEST(Routing, HasNoMoreRoomThanTokens) {
  const Routes routes =
      route(at::rand({3, 4}), {.top_k = 2, .min_capacity = 64}, {});
  EXPECT_EQ(routes.capacity, 3);
  EXPECT_EQ(route(at::rand({3, 4}), {.capacity_factor = 1e30}, {}).capacity, 3);
}

TEST(Routing, RefusesMoreExpertsThanThereAre) {
  EXPECT_THAT(
      error_text<UsageError>([] {
        route(at::rand({4, 4}), {.top_k = 5}, {});
      }),
      HasSubstr("no more experts than there are"));
  EXPECT_THROW(route(at::rand({4, 4}), {.top_k = 0}, {}), UsageError);
  EXPECT_THROW(route(at::rand({4}), {}, {}), UsageError);
  EXPECT_THROW(route(at::rand({4, 4}, at::kDouble), {}, {}), UsageError);
}

constexpr std::int64_t hidden = 6;
constexpr std::int64_t ffn = 8;
constexpr std::int64_t experts = 4;

MixtureOptions golden_options(const json& wanted) {
  return {
      .expert =
          {.hidden = hidden,
           .ffn = ffn,
           .activation = model::ActivationKind::relu,
           .bias = false},
      .experts = experts,
      .routing =
          {.top_k = wanted.at("top_k"),
           .capacity_factor = 0.75,
           .min_capacity = 2,
           .drop_tokens = wanted.at("top_k") == 2},
      .residual = wanted.at("residual")};
}

/// A layer whose weights are waves, as in the golden data.
struct Layer {
  Layer(const json& wanted, const LayerContext& context)
      : Layer(golden_options(wanted), context) {}
  Layer(const MixtureOptions& options, const LayerContext& context)
      : mixture(context, options) {
    const std::map<std::string, Tensor> whole{
        {"router.weight", waves({experts, hidden}, 2.1)},
        {"experts.up.weight", waves({experts, ffn, hidden}, 0.9)},
        {"experts.down.weight", waves({experts, hidden, ffn}, 1.3)},
        {"residual.up.weight", waves({ffn, hidden}, 1.9)},
        {"residual.down.weight", waves({hidden, ffn}, 0.7)},
        {"coefficient.weight", waves({2, hidden}, 1.1)},
        {"coefficient.bias", waves({2}, 0.3)}};
    std::map<std::string, ParameterSlice> slices;
    for (const ParameterSlice& slice : parameter_slices(mixture)) {
      slices[slice.name] = slice;
    }
    const at::NoGradGuard no_grad;
    for (auto& parameter : mixture.named_parameters()) {
      Tensor part = whole.at(parameter.key());
      if (slices.contains(parameter.key())) {
        const ParameterSlice& slice = slices[parameter.key()];
        for (std::int64_t d = 0; d < part.dim(); ++d) {
          part = part.narrow(
              d,
              slice.offset[static_cast<std::size_t>(d)],
              parameter.value().size(d));
        }
      }
      parameter.value().copy_(part);
    }
  }

  Tensor gradient(const std::string& name) {
    return mixture.named_parameters()[name].grad();
  }

  Mixture mixture;
};

Tensor golden_input() {
  return waves({2, 8, hidden}, 0.37);
}

void expect_close(const Tensor& got, const json& wanted) {
  EXPECT_TRUE(at::allclose(got.flatten(), floats(wanted), 1e-4, 1e-5))
      << got.flatten() << floats(wanted);
}

TEST(Mixture, IsDeepSpeeds) {
  ASSERT_EQ(golden().at("layers").size(), 2U);
  for (const json& wanted : golden().at("layers")) {
    SCOPED_TRACE(wanted.at("residual").dump());
    Layer layer(wanted, {});
    const Tensor x = golden_input().requires_grad_();
    const Mixture::Output output = layer.mixture.forward(x);
    expect_close(output.hidden, wanted.at("output"));
    EXPECT_NEAR(output.balance_loss.item<double>(), wanted.at("loss"), 1e-5);
    (weighed(output.hidden) + output.balance_loss).backward();
    expect_close(x.grad(), wanted.at("input_gradient"));
    expect_close(layer.gradient("router.weight"), wanted.at("router_gradient"));
    expect_close(layer.gradient("experts.up.weight"), wanted.at("up_gradient"));
  }
}

/// The router computes in fp32 under autocast too.
TEST(Mixture, ComputesUnderAutocast) {
  const json& wanted = golden().at("layers").at(0);
  Layer layer(wanted, {});
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Mixture::Output output = layer.mixture.forward(golden_input());
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_NEAR(output.balance_loss.item<double>(), wanted.at("loss"), 1e-5);
}

/// Ranks with the same batch: each expert gets every rank's tokens, so its
/// gradient is that of one rank times the number of ranks.
TEST(Mixture, IsTheSameWithExpertsSharedOut) {
  for (const json& wanted : golden().at("layers")) {
    run_ranks({.ranks = 2}, [&](const distributed::World& world) {
      Layer layer(wanted, {.expert_group = world.group()});
      EXPECT_EQ(
          layer.mixture.named_parameters()["experts.up.weight"].size(0),
          2);
      EXPECT_THAT(
          expert_parameters(layer.mixture),
          ::testing::UnorderedElementsAre(
              "experts.up.weight",
              "experts.down.weight"));
      const Tensor x = golden_input().requires_grad_();
      const Mixture::Output output = layer.mixture.forward(x);
      expect_close(output.hidden, wanted.at("output"));
      (weighed(output.hidden) + output.balance_loss).backward();
      expect_close(x.grad(), wanted.at("input_gradient"));
      const Tensor all =
          floats(wanted.at("up_gradient")).view({experts, ffn, hidden}) * 2;
      EXPECT_TRUE(at::allclose(
          layer.gradient("experts.up.weight"),
          all.narrow(0, 2 * world.rank(), 2),
          1e-4,
          1e-5));
    });
  }
}

/// Three experts for each token. Where none is dropped, a rank that has all
/// experts goes another way than ranks that share them out.
TEST(Mixture, IsTheSameWithExpertsSharedOutForTheBestThree) {
  for (const bool drop : {true, false}) {
    MixtureOptions options =
        golden_options({{"top_k", 3}, {"residual", false}});
    options.routing.drop_tokens = drop;
    const auto trained = [&](const distributed::ProcessGroup& group) {
      auto layer =
          std::make_unique<Layer>(options, LayerContext{.expert_group = group});
      const Tensor x = golden_input().requires_grad_();
      const Mixture::Output output = layer->mixture.forward(x);
      (weighed(output.hidden) + output.balance_loss).backward();
      return std::vector{
          output.hidden.detach(),
          x.grad(),
          layer->gradient("router.weight"),
          layer->gradient("experts.up.weight"),
          layer->gradient("experts.down.weight")};
    };
    const std::vector<Tensor> alone = trained({});
    run_ranks({.ranks = 2}, [&](const distributed::World& world) {
      const std::vector<Tensor> shared = trained(world.group());
      for (std::size_t i = 0; i < alone.size(); ++i) {
        const Tensor wanted =
            i < 3 ? alone[i] : alone[i].narrow(0, 2 * world.rank(), 2) * 2;
        EXPECT_TRUE(at::allclose(shared[i], wanted, 1e-4, 1e-5)) << i;
      }
    });
  }
}

TEST(Mixture, IsTheSameWithPartsOfExperts) {
  for (const json& wanted : golden().at("layers")) {
    for (const bool sequence_parallel : {false, true}) {
      run_ranks({.ranks = 2}, [&](const distributed::World& world) {
        Layer layer(
            wanted,
            {.group = world.group(), .sequence_parallel = sequence_parallel});
        // Each rank's share of the tokens is a row of the batch.
        const std::int64_t own = sequence_parallel ? 1 : 2;
        const auto mine = [&](const Tensor& all) {
          const Tensor rows = all.view({2, 8 * hidden});
          return (own == 1 ? rows.narrow(0, world.rank(), 1) : rows).flatten();
        };
        const Tensor x = mine(golden_input())
                             .view({2, own * 4, hidden})
                             .clone()
                             .requires_grad_();
        const Mixture::Output output = layer.mixture.forward(x);
        const auto expect_mine = [&](const Tensor& got, const char* name) {
          EXPECT_TRUE(at::allclose(
              got.flatten(),
              mine(floats(wanted.at(name))),
              1e-4,
              1e-5));
        };
        expect_mine(output.hidden, "output");
        const Tensor weights =
            mine(at::cos(at::arange(16 * hidden, at::kFloat)));
        ((output.hidden.flatten() * weights).sum() + output.balance_loss)
            .backward();
        expect_mine(x.grad(), "input_gradient");
        expect_close(
            layer.gradient("router.weight"),
            wanted.at("router_gradient"));
        EXPECT_TRUE(at::allclose(
            layer.gradient("experts.up.weight"),
            floats(wanted.at("up_gradient"))
                .view({experts, ffn, hidden})
                .narrow(1, world.rank() * ffn / 2, ffn / 2),
            1e-4,
            1e-5));
      });
    }
  }
}

/// Tensor parallel ranks draw from equal generators, and send the same tokens
/// the same way.
TEST(Mixture, IsTheSameWithPartsOfExpertsWhereMuchIsDrawn) {
  for (const std::int64_t top_k : {1, 2}) {
    MixtureOptions options =
        golden_options({{"top_k", top_k}, {"residual", false}});
    options.jitter = 0.1;
    options.routing.drop_tokens = true;
    options.routing.random_selection = true;
    options.routing.sample_first = top_k == 1;
    options.routing.sample_second = true;
    const auto output = [&](const distributed::ProcessGroup& group) {
      torch::manual_seed(5);
      const Layer layer(options, {.group = group});
      return layer.mixture.forward(golden_input()).hidden.detach();
    };
    const Tensor alone = output({});
    run_ranks({.ranks = 2}, [&](const distributed::World& world) {
      EXPECT_TRUE(at::allclose(output(world.group()), alone, 1e-4, 1e-5));
    });
  }
}

TEST(Mixture, RefusesExpertsThatRanksCannotShare) {
  run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    EXPECT_THAT(
        error_text<ConfigError>([&] {
          const Mixture mixture(
              {.expert_group = world.group()},
              {.expert = {.hidden = 4, .ffn = 4}, .experts = 3});
        }),
        HasSubstr("--expert-model-parallel-size"));
  });
}

TEST(Mixture, DrawsNothingInEvaluation) {
  Mixture mixture(
      {},
      {.expert = {.hidden = hidden, .ffn = ffn},
       .experts = experts,
       .routing =
           {.top_k = 2,
            .capacity_factor = 0.5,
            .min_capacity = 1,
            .sample_second = true},
       .eval_capacity_factor = 2,
       .jitter = 0.01});
  const at::NoGradGuard no_grad;
  const Tensor x = golden_input();
  const auto run = [&] { return mixture.forward(x).hidden; };
  EXPECT_FALSE(at::equal(run(), run()));
  mixture.eval();
  EXPECT_TRUE(at::equal(run(), run()));
}

} // namespace
} // namespace cairn::nn::mixture_test
