#include "support/golden_tensors.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

// Runs of plain PyTorch on a tiny GPT-2 (tests/golden/training), followed by
// the engine at different stages.

namespace cairn::training_golden_test {
namespace {

using nlohmann::json;

const std::string folder = CAIRN_GOLDEN_DIR "/training/";

/// Hugging Face's GPT-2 under its own names (with _ for the dots, which a
/// parameter's name may not have).
struct Gpt2 : torch::nn::Module {
  Gpt2() {
    for (const auto& [name, values] : testing::golden_tensors(
             CAIRN_GOLDEN_DIR "/gpt2_tiny/model.safetensors")) {
      weights[name] = register_parameter(local(name), values.clone());
    }
  }
  static std::string local(std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
  }
  at::Tensor weight(const std::string& name) const {
    return weights.at("transformer." + name);
  }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    return at::layer_norm(
        x,
        {x.size(-1)},
        weight(name + ".weight"),
        weight(name + ".bias"));
  }
  at::Tensor dense(const std::string& name, const at::Tensor& x) const {
    return at::matmul(x, weight(name + ".weight")) + weight(name + ".bias");
  }
  at::Tensor forward(const at::Tensor& tokens) {
    const auto rows = tokens.size(0);
    const auto length = tokens.size(1);
    at::Tensor x = at::embedding(weight("wte.weight"), tokens) +
        weight("wpe.weight").narrow(0, 0, length);
    const auto width = x.size(2);
    for (const std::string h : {"h.0.", "h.1."}) {
      const auto split =
          dense(h + "attn.c_attn", norm(h + "ln_1", x)).split(width, 2);
      const auto head = [&](const at::Tensor& part) {
        return part.view({rows, length, 4, width / 4}).transpose(1, 2);
      };
      const at::Tensor mixed = at::scaled_dot_product_attention(
          head(split[0]),
          head(split[1]),
          head(split[2]),
          {},
          0.0,
          true);
      x = x +
          dense(
              h + "attn.c_proj",
              mixed.transpose(1, 2).reshape({rows, length, width}));
      const at::Tensor up = dense(h + "mlp.c_fc", norm(h + "ln_2", x));
      x = x + dense(h + "mlp.c_proj", at::gelu(up, "tanh"));
    }
    return at::linear(norm("ln_f", x), weight("wte.weight"));
  }
  std::map<std::string, at::Tensor> weights;
};

/// Megatron's cosine of the runs, read off the golden rates.
struct GoldenRates : optim::Schedule {
  std::vector<double> rates;
  std::vector<optim::GroupValuesPatch> at(std::int64_t done) const override {
    const std::size_t i =
        std::min<std::size_t>(static_cast<std::size_t>(done), rates.size() - 1);
    return {{.lr = rates[i]}};
  }
};

at::Tensor golden_tokens() {
  std::ifstream file(folder + "data.npy", std::ios::binary);
  std::string bytes(
      (std::istreambuf_iterator<char>(file)),
      std::istreambuf_iterator<char>());
  at::Tensor tokens = at::empty({30, 4, 33}, at::kInt);
  std::memcpy(
      tokens.data_ptr(),
      bytes.data() + bytes.size() - tokens.nbytes(),
      tokens.nbytes());
  return tokens.to(at::kLong);
}

json optimizer_of(const json& run) {
  const std::string type = run["optimizer"];
  json params{{"lr", 1e-3}, {"weight_decay", run["weight_decay"]}};
  if (type == "sgd") {
    params["lr"] = run["lr"][0];
    params["momentum"] = 0.9;
  } else {
    params["lr"] = run["lr"][0];
    params["betas"] = {0.9, 0.95};
    params["eps"] = 1e-8;
    params["adam_w_mode"] = type == "adamw";
  }
  return {{"type", type == "sgd" ? "SGD" : "Adam"}, {"params", params}};
}

void follow(const json& run, int stage, const distributed::World& world) {
  SCOPED_TRACE(run["name"].get<std::string>());
  auto net = std::make_shared<Gpt2>();
  auto schedule = std::make_shared<GoldenRates>();
  schedule->rates = run["lr"].get<std::vector<double>>();
  const int accumulation = run["accumulation"];
  const std::int64_t micro =
      run["micro_batch"].get<std::int64_t>() / world.size();
  json config{
      {"train_micro_batch_size_per_gpu", micro},
      {"gradient_accumulation_steps", accumulation},
      {"gradient_clipping", run["clip"]},
      {"optimizer", optimizer_of(run)},
      {"zero_optimization",
       {{"stage", stage},
        {"reduce_bucket_size", 20000},
        {"stage3_param_persistence_threshold", 100}}}};
  const bool autocast = run["autocast_bf16"];
  config["amp"]["enabled"] = autocast;
  auto all = initialize(
      {.model = net,
       .model_parameters = run["weight_decay_rule"] == "no-decay"
           ? no_decay_groups(*net)
           : std::vector<ParameterGroup>{},
       .lr_scheduler = schedule,
       .config = config.dump(),
       .world = world,
       .logger = Logger({.least = LogLevel::error})});
  Engine& engine = all.engine;
  const at::Tensor tokens = golden_tokens();
  for (int step = 0; step < 30; ++step) {
    double sum = 0;
    for (int pass = 0; pass < accumulation; ++pass) {
      const at::Tensor own = tokens[step].narrow(
          0,
          (pass * world.size() + world.rank()) * micro,
          micro);
      const at::Tensor loss = torch::nn::functional::cross_entropy(
          engine(own.narrow(1, 0, 32).contiguous())
              .flatten(0, 1)
              .to(at::kFloat),
          own.narrow(1, 1, 32).flatten());
      sum += loss.item<double>();
      engine.backward(loss);
      engine.step();
    }
    const double loss = world.group()
                            .all_reduce(at::full({1}, sum, at::kDouble))
                            .wait()
                            .item<double>() /
        (world.size() * accumulation);
    const double tolerance = autocast ? 2e-2 : step < 10 ? 1e-4 : 1e-3;
    const double wanted = run["loss"][step];
    ASSERT_NEAR(loss, wanted, tolerance * wanted) << "step " << step;
    const double norm = run["grad_norm"][step];
    EXPECT_NEAR(*engine.gradient_norm(), norm, 10 * tolerance * norm)
        << "step " << step;
  }
  if (run.contains("final_weights")) {
    for (const auto& [name, values] : testing::golden_tensors(
             folder + run["final_weights"].get<std::string>())) {
      const at::Tensor got = engine.full_parameter(Gpt2::local(name));
      EXPECT_LT((got - values).abs().max().item<double>(), 2e-3) << name;
    }
  }
}

class TrainingGolden : public ::testing::TestWithParam<int> {};

TEST_P(TrainingGolden, FollowsEveryRun) {
  const int stage = GetParam();
  std::ifstream file(folder + "runs.json");
  const json runs = json::parse(file);
  testing::run_ranks(
      {.ranks = stage == 0 ? 1 : 2},
      [&](const distributed::World& world) {
        for (const json& run : runs) {
          // Ranks cannot share a micro batch of one, and amp has no ZeRO stage.
          const bool shared = run["micro_batch"].get<int>() >= world.size();
          if (shared && (stage == 0 || !run["autocast_bf16"].get<bool>())) {
            follow(run, stage, world);
          }
        }
      });
}

INSTANTIATE_TEST_SUITE_P(
    Stages,
    TrainingGolden,
    ::testing::Values(0, 1, 2, 3),
    [](const auto& info) { return "Stage" + std::to_string(info.param); });

} // namespace
} // namespace cairn::training_golden_test
