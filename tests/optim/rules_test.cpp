// The rules against their formulas, written plainly in double.
#include <cairn/base/error.h>
#include <cairn/optim/rule.h>
#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace cairn::optim::rules_test {
namespace {

using config::OptimizerConfig;
using config::OptimizerParams;
using ::testing::ElementsAre;

OptimizerConfig named(const char* type, OptimizerParams params = {}) {
  return {.type = type, .params = params};
}

/// An element and its two states, in double.
struct Element64 {
  double weight;
  double first;
  double second;
};
using Formula =
    std::function<void(Element64&, double gradient, std::int64_t step)>;

constexpr std::size_t size = 37;
constexpr int steps = 20;

std::vector<float> random_values(unsigned seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(size);
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

/// Runs both for some steps, with gradients scaled up as by a loss scale, and
/// expects weights and states to stay together.
void expect_follows(
    const Rule& rule,
    const GroupValues& values,
    const Formula& formula) {
  std::vector<float> weights = random_values(1, 1);
  std::vector<float> first(size, rule.initial_state());
  std::vector<float> second(size, rule.initial_state());
  std::vector<std::uint16_t> copy(size);
  std::vector<Element64> plain(size);
  for (std::size_t i = 0; i < size; ++i) {
    plain[i] = {weights[i], rule.initial_state(), rule.initial_state()};
  }
  const std::size_t states = rule.state_names().size();
  for (int step = 1; step <= steps; ++step) {
    const std::vector<float> gradients =
        random_values(static_cast<unsigned>(100 + step), 64);
    const Stretch stretch{
        .weights = weights.data(),
        .gradients = gradients.data(),
        .copy = copy.data(),
        .copy_type = Element::bf16,
        .states =
            {states > 0 ? first.data() : nullptr,
             states > 1 ? second.data() : nullptr},
        .count = size};
    rule.update(
        stretch,
        values,
        {.step = step, .gradient_factor = 1.0 / 256},
        {});
    for (std::size_t i = 0; i < size; ++i) {
      formula(plain[i], static_cast<double>(gradients[i]) / 256, step);
      ASSERT_NEAR(weights[i], plain[i].weight, 2e-6) << "step " << step;
      if (states > 0) {
        ASSERT_NEAR(first[i], plain[i].first, 1e-6);
      }
      if (states > 1) {
        ASSERT_NEAR(second[i], plain[i].second, 1e-6);
      }
      const auto bits = std::bit_cast<std::uint32_t>(weights[i]);
      ASSERT_NEAR(copy[i], bits / 65536.0, 0.5);
    }
  }
}

TEST(Adam, FollowsItsFormula) {
  for (const bool decoupled : {true, false}) {
    for (const bool correction : {true, false}) {
      OptimizerParams params{
          .lr = 0.01,
          .betas = {{0.8, 0.95}},
          .eps = 1e-6,
          .weight_decay = 0.1};
      params.adam_w_mode = decoupled;
      params.bias_correction = correction;
      const auto config = named("adam", params);
      expect_follows(
          *make_rule(config),
          default_values(config),
          [=](Element64& x, double g, std::int64_t step) {
            g += decoupled ? 0 : 0.1 * x.weight;
            x.first = 0.8 * x.first + 0.2 * g;
            x.second = 0.95 * x.second + 0.05 * g * g;
            const auto t = static_cast<double>(step);
            const double m = x.first / (correction ? 1 - std::pow(0.8, t) : 1);
            const double v =
                x.second / (correction ? 1 - std::pow(0.95, t) : 1);
            x.weight -= decoupled ? 0.01 * 0.1 * x.weight : 0;
            x.weight -= 0.01 * m / (std::sqrt(v) + 1e-6);
          });
    }
  }
}

TEST(Sgd, FollowsItsFormula) {
  struct Case {
    double momentum, dampening;
    bool nesterov;
  };
  for (const Case& one :
       {Case{0, 0, false},
        Case{0.9, 0, false},
        Case{0.9, 0.3, false},
        Case{0.9, 0, true}}) {
    OptimizerParams params{.lr = 0.01, .weight_decay = 0.05};
    params.momentum = one.momentum;
    params.dampening = one.dampening;
    params.nesterov = one.nesterov;
    const auto config = named("SGD", params);
    expect_follows(
        *make_rule(config),
        default_values(config),
        [=](Element64& x, double g, std::int64_t step) {
          g += 0.05 * x.weight;
          if (one.momentum != 0) {
            x.first = step == 1
                ? g
                : one.momentum * x.first + (1 - one.dampening) * g;
            g = one.nesterov ? g + one.momentum * x.first : x.first;
          }
          x.weight -= 0.01 * g;
        });
  }
}

TEST(Adagrad, FollowsItsFormula) {
  OptimizerParams params{.lr = 0.1, .eps = 1e-7, .weight_decay = 0.05};
  params.lr_decay = 0.2;
  params.initial_accumulator_value = 0.5;
  const auto config = named("adagrad", params);
  const auto rule = make_rule(config);
  EXPECT_EQ(rule->initial_state(), 0.5F);
  expect_follows(
      *rule,
      default_values(config),
      [](Element64& x, double g, std::int64_t step) {
        g += 0.05 * x.weight;
        x.first += g * g;
        const double lr = 0.1 / (1 + static_cast<double>(step - 1) * 0.2);
        x.weight -= lr * g / (std::sqrt(x.first) + 1e-7);
      });
}

TEST(Lion, FollowsItsFormula) {
  const auto config =
      named("Lion", {.lr = 0.01, .betas = {{0.9, 0.99}}, .weight_decay = 0.1});
  expect_follows(
      *make_rule(config),
      default_values(config),
      [](Element64& x, double g, std::int64_t) {
        const double c = 0.9 * x.first + 0.1 * g;
        x.first = 0.99 * x.first + 0.01 * g;
        x.weight -= 0.01 * 0.1 * x.weight;
        x.weight -= c > 0 ? 0.01 : c < 0 ? -0.01 : 0;
      });
}

TEST(Lion, LeavesWhatHasNoGradient) {
  const auto rule = make_rule(named("lion"));
  float weight = 1.5F;
  float state = 0;
  const float gradient = 0;
  rule->update(
      {.weights = &weight,
       .gradients = &gradient,
       .states = {&state, nullptr},
       .count = 1},
      {.lr = 0.1},
      {},
      {});
  EXPECT_EQ(weight, 1.5F);
}

TEST(Rules, NanAndInfReachTheWeights) {
  for (const char* type : {"adam", "sgd", "adagrad", "lion"}) {
    for (const float bad :
         {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      const auto rule = make_rule(named(type));
      std::vector<float> weights(9, 1.F);
      std::vector<float> first(9);
      std::vector<float> second(9);
      std::vector<float> gradients(9, 1.F);
      gradients[3] = bad;
      rule->update(
          {.weights = weights.data(),
           .gradients = gradients.data(),
           .states = {first.data(), second.data()},
           .count = 9},
          {},
          {},
          {});
      if (std::isnan(bad)) {
        EXPECT_TRUE(std::isnan(weights[3])) << type;
      }
      EXPECT_TRUE(std::isfinite(weights[2])) << type;
      EXPECT_TRUE(std::isfinite(weights[4])) << type;
    }
  }
}

TEST(Adam, DecayIsNotLostInRounding) {
  // lr * weight decay = 1e-7: 1 - 1e-7 in fp32 would be wrong by a fifth.
  const auto rule = make_rule(named("adamw"));
  std::vector<float> weight{1000.F};
  float first = 0;
  float second = 0;
  const float gradient = 0;
  const Stretch stretch{
      .weights = weight.data(),
      .gradients = &gradient,
      .states = {&first, &second},
      .count = 1};
  rule->update(stretch, {.lr = 1e-5, .weight_decay = 0.01}, {}, {});
  EXPECT_NEAR(weight[0], 1000 * (1 - 1e-7), 3.1e-5); // half a unit
}

TEST(Lamb, FollowsItsFormula) {
  OptimizerParams params{
      .lr = 0.01,
      .betas = {{0.8, 0.95}},
      .eps = 1e-6,
      .weight_decay = 0.1};
  params.max_coeff = 1.5;
  params.min_coeff = 0.2;
  const auto config = named("Lamb", params);
  const auto rule = make_rule(config);
  EXPECT_EQ(rule->scope(), Scope::parameter_norms);
  const GroupValues values = default_values(config);

  std::vector<float> weights = random_values(1, 1);
  std::vector<float> first(size);
  std::vector<float> second(size);
  std::vector<float> direction(size);
  std::vector<Element64> plain(size);
  for (std::size_t i = 0; i < size; ++i) {
    plain[i] = {weights[i], 0, 0};
  }
  for (int step = 1; step <= steps; ++step) {
    const auto gradients = random_values(static_cast<unsigned>(step), 2);
    const Stretch stretch{
        .weights = weights.data(),
        .gradients = gradients.data(),
        .states = {first.data(), second.data()},
        .count = size};
    const StepValues now{.step = step, .gradient_factor = 0.5};
    const std::vector<float> before = weights;
    rule->update(stretch, values, now, {}, direction.data());
    EXPECT_EQ(weights, before);
    double squares = 0;
    double direction_squares = 0;
    std::vector<double> directions(size);
    for (std::size_t i = 0; i < size; ++i) {
      Element64& x = plain[i];
      const double g = 0.5 * gradients[i];
      x.first = 0.8 * x.first + 0.2 * g;
      x.second = 0.95 * x.second + 0.05 * g * g;
      directions[i] = x.first / (std::sqrt(x.second) + 1e-6) + 0.1 * x.weight;
      ASSERT_NEAR(direction[i], directions[i], 1e-5);
      squares += x.weight * x.weight;
      direction_squares += directions[i] * directions[i];
    }
    const double trust =
        std::min(1.5, std::max(0.2, std::sqrt(squares / direction_squares)));
    rule->apply(
        stretch,
        direction.data(),
        {.weight_squares = squares, .direction_squares = direction_squares},
        values,
        now,
        {});
    for (std::size_t i = 0; i < size; ++i) {
      plain[i].weight -= 0.01 * std::sqrt(1 - std::pow(0.95, step)) /
          (1 - std::pow(0.8, step)) * trust * directions[i];
      ASSERT_NEAR(weights[i], plain[i].weight, 2e-6);
    }
  }
}

TEST(Lamb, BoundsTheTrustRatio) {
  OptimizerParams params;
  params.max_coeff = 1.5;
  params.min_coeff = 0.2;
  params.bias_correction = false;
  const auto rule = make_rule(named("Lamb", params));
  const auto trust = [&](double weight_squares, double direction_squares) {
    const WholeParameter whole{
        .weight_squares = weight_squares,
        .direction_squares = direction_squares};
    return rule->descent(whole, {.lr = 1}, {}).step_size;
  };
  EXPECT_EQ(trust(0, 3), 1);
  EXPECT_EQ(trust(3, 0), 1);
  EXPECT_EQ(trust(1e9, 1), 1.5);
  EXPECT_EQ(trust(1e-9, 1), 0.2);
}

TEST(Muon, FollowsItsFormula) {
  for (const bool nesterov : {true, false}) {
    OptimizerParams params{.lr = 0.01, .weight_decay = 0.1};
    params.momentum = 0.9;
    params.nesterov = nesterov;
    const auto config = named("muon", params);
    const auto rule = make_rule(config);
    EXPECT_EQ(rule->scope(), Scope::whole_matrices);
    const GroupValues values = default_values(config);
    std::vector<float> weights = random_values(1, 1);
    std::vector<float> momentum(size);
    std::vector<float> out(size);
    std::vector<double> plain(size);
    for (int step = 1; step <= 3; ++step) {
      const auto gradients = random_values(static_cast<unsigned>(step), 2);
      const Stretch stretch{
          .weights = weights.data(),
          .gradients = gradients.data(),
          .states = {momentum.data(), nullptr},
          .count = size};
      const std::vector<float> before = weights;
      rule->update(stretch, values, {.step = step}, {}, out.data());
      EXPECT_EQ(weights, before);
      for (std::size_t i = 0; i < size; ++i) {
        const double g = gradients[i];
        plain[i] = 0.9 * plain[i] + 0.1 * g;
        const double expected = nesterov ? 0.1 * g + 0.9 * plain[i] : plain[i];
        ASSERT_NEAR(out[i], expected, 1e-6);
      }
      const WholeParameter tall{.rows = 12, .columns = 3}; // twice as far
      rule->apply(stretch, out.data(), tall, values, {.step = step}, {});
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_NEAR(
            weights[i],
            before[i] * (1 - 0.01 * 0.1) - 0.01 * 2 * out[i],
            1e-6);
      }
    }
  }
}

TEST(Muon, TakesHiddenMatrices) {
  const auto rule = make_rule(named("muon"));
  const auto takes = [&](const char* name, std::vector<std::int64_t> shape) {
    const Rule& used = rule->rule_for(name, shape);
    EXPECT_EQ(used.name(), &used == rule.get() ? "muon" : "adamw");
    return &used == rule.get();
  };
  EXPECT_TRUE(takes("h.0.attn.c_attn.weight", {8, 24}));
  EXPECT_TRUE(takes("conv.weight", {8, 3, 3, 3}));
  EXPECT_FALSE(takes("h.0.attn.c_attn.bias", {24}));
  EXPECT_FALSE(takes("transformer.wte.weight", {100, 8}));
  EXPECT_FALSE(takes("embedding.word_embeddings.weight", {100, 8}));
  EXPECT_FALSE(takes("lm_head.weight", {100, 8}));
}

TEST(Rules, MostTakeEveryParameter) {
  for (const char* type : {"adam", "sgd", "adagrad", "lion", "lamb"}) {
    const auto rule = make_rule(named(type));
    const std::vector<std::int64_t> shape{100, 8};
    EXPECT_EQ(&rule->rule_for("lm_head.weight", shape), rule.get()) << type;
    EXPECT_FALSE(rule->rest_values()) << type;
  }
}

TEST(MakeRule, ResolvesAsDeepSpeed) {
  EXPECT_EQ(make_rule(named("Adam"))->name(), "adamw");
  EXPECT_EQ(make_rule(named("AdamW", {.adam_w_mode = false}))->name(), "adamw");
  EXPECT_EQ(make_rule(named("adam", {.adam_w_mode = false}))->name(), "adam");
  EXPECT_EQ(make_rule(named("SGD"))->name(), "sgd");
  EXPECT_TRUE(make_rule(named("sgd"))->state_names().empty());
  EXPECT_THAT(
      make_rule(named("adam"))->state_names(),
      ElementsAre("exp_avg", "exp_avg_sq"));

  EXPECT_EQ(default_values(named("adam")), GroupValues{});
  EXPECT_EQ(
      default_values(named("adamw", {.torch_adam = true})),
      (GroupValues{.weight_decay = 0.01})); // torch.optim.AdamW's default
  EXPECT_EQ(
      default_values(named("adam", {.adam_w_mode = false, .torch_adam = true})),
      GroupValues{});
  EXPECT_EQ(
      default_values(named("adagrad")),
      (GroupValues{.lr = 1e-2, .eps = 1e-10}));
}

TEST(MakeRule, MuonHasTwoLearningRates) {
  OptimizerParams params{.lr = 0.5};
  auto config = named("muon", params);
  const auto rest = [&] { return make_rule(config)->rest_values().value(); };
  EXPECT_EQ(default_values(config).lr, 0.5);
  EXPECT_EQ(default_values(config).momentum, 0.95);
  EXPECT_EQ(rest().lr, 0.5);
  EXPECT_EQ(rest().betas, (std::array{0.9, 0.95}));
  EXPECT_EQ(rest().eps, 1e-10);
  config.params->muon_lr = 0.25;
  config.params->adam_lr = 0.125;
  EXPECT_EQ(default_values(config).lr, 0.25);
  EXPECT_EQ(rest().lr, 0.125);
  config.params = std::nullopt;
  EXPECT_EQ(default_values(config).lr, 0.02);
  EXPECT_EQ(rest().lr, 3e-4);
}

TEST(MakeRule, RefusesWhatCannotBe) {
  EXPECT_THROW(make_rule({}), ConfigError);
  EXPECT_THROW(make_rule(named("adam", {.betas = {{1.0, 0.9}}})), ConfigError);
  EXPECT_THROW(make_rule(named("sgd", {.nesterov = true})), ConfigError);
  EXPECT_THROW(
      make_rule(named("lamb", {.max_coeff = 1, .min_coeff = 2})),
      ConfigError);
  try {
    make_rule(named("Adamm"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("\"Adamm\""));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("lamb"));
  }
}

} // namespace
} // namespace cairn::optim::rules_test
