#pragma once

#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/base/counter_random.h>
#include <cairn/engine/initialize.h>
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// Twenty steps equal ten steps, a new process, and ten steps: the same bits in
// losses and weights. Data order, dropout, loss scale, learning rate and
// optimizer all go on as without the break.

namespace cairn::testing::resume {

using nlohmann::json;

constexpr int half = 10;

struct Net : torch::nn::Module {
  Net() {
    in = register_module("in", torch::nn::Linear(4, 33));
    drop = register_module("drop", torch::nn::Dropout(0.3));
    out = register_module("out", torch::nn::Linear(33, 3));
    seen = register_buffer("seen", at::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& x) {
    seen += 1;
    return out(drop(at::relu(in(x))));
  }
  torch::nn::Linear in{nullptr}, out{nullptr};
  torch::nn::Dropout drop{nullptr};
  at::Tensor seen;
};

/// Few enough samples that an epoch ends within the ten steps, and enough that
/// ten steps end within an epoch.
struct Samples {
  std::size_t size() const { return 54; }
  std::pair<at::Tensor, at::Tensor> get(std::size_t index) const {
    const CounterRandom random(5, "samples");
    at::Tensor input = at::empty({4});
    for (std::size_t i = 0; i < 4; ++i) {
      input[static_cast<std::int64_t>(i)] = random.uniform(4 * index + i);
    }
    return {
        input,
        at::full({}, static_cast<std::int64_t>(index % 3), at::kLong)};
  }
};

struct Way {
  std::string name;
  json config;
};

/// The ways to train at a stage of ZeRO.
inline std::vector<Way> ways(int stage, const std::string& disk) {
  const json cpu{{"device", "cpu"}};
  const json nvme{{"device", "nvme"}, {"nvme_path", disk}};
  const json visits{{"device", "cpu"}, {"update_on", "gpu"}};
  const json places_of_all{
      {"device", "nvme"},
      {"nvme_path", disk},
      {"update_on", "gpu"},
      {"ratio", 0.7},
      {"cpu_ratio", 0.4}};
  const std::vector<std::pair<std::string, json>> precisions{
      {"fp32", json::object()},
      {"bf16-narrow",
       {{"bf16", {{"enabled", true}}},
        {"data_types",
         {{"precision_aware_optimizer", true},
          {"exp_avg_dtype", "bf16"},
          {"exp_avg_sq_dtype", "bf16"}}}}},
      {"bf16", {{"bf16", {{"enabled", true}}}}},
      {"fp16",
       {{"fp16",
         {{"enabled", true},
          {"initial_scale_power", 8},
          {"loss_scale_window", 3}}}}}};
  const std::vector<std::pair<std::string, json>> places{
      {"", json::object()},
      {"-cpu", {{"offload_optimizer", cpu}}},
      {"-visits", {{"offload_optimizer", visits}}},
      {"-three-places", {{"offload_optimizer", places_of_all}}},
      {"-nvme", {{"offload_optimizer", nvme}}},
      {"-all-cpu", {{"offload_optimizer", cpu}, {"offload_param", cpu}}},
      {"-all-nvme", {{"offload_optimizer", nvme}, {"offload_param", nvme}}}};
  std::vector<Way> all;
  for (const auto& [precision, settings] : precisions) {
    for (const auto& [place, offload] : places) {
      if ((stage == 0 && !place.empty()) ||
          (stage < 3 && offload.contains("offload_param")) ||
          ((place == "-visits" || place == "-three-places") &&
           precision != "bf16-narrow")) {
        continue;
      }
      json config = settings;
      config["zero_optimization"] = offload;
      config["zero_optimization"]["stage"] = stage;
      config["zero_optimization"]["reduce_bucket_size"] = 100;
      config["zero_optimization"]["stage3_param_persistence_threshold"] = 10;
      all.push_back(
          {"stage" + std::to_string(stage) + "-" + precision + place,
           std::move(config)});
    }
  }
  return all;
}

class Training {
 public:
  Training(const distributed::World& world, json config)
      : net_(std::make_shared<Net>()), all_(made(world, std::move(config))) {}

  Engine& engine() { return all_.engine; }

  /// The values in which a run could differ from another, after some steps.
  std::vector<double> go_on(std::int64_t until, std::int64_t unseen = 0) {
    std::vector<double> seen;
    Engine& engine = all_.engine;
    while (engine.progress().global_steps < until) {
      for (auto& batch : all_.loader) {
        const at::Tensor loss = torch::nn::functional::cross_entropy(
            engine(batch.input).to(at::kFloat),
            batch.target);
        engine.backward(loss);
        engine.step();
        if (engine.progress().micro_steps <= 2 * unseen) {
          continue;
        }
        seen.push_back(loss.item<double>());
        seen.push_back(engine.progress().loss_scale);
        seen.push_back(engine.progress().learning_rates[0]);
        if (engine.progress().global_steps == until) {
          break;
        }
      }
    }
    for (const auto& parameter : net_->named_parameters()) {
      const at::Tensor values = engine.full_parameter(parameter.key());
      const at::Tensor flat =
          values.cpu().to(at::kDouble).contiguous().view({-1});
      seen.insert(
          seen.end(),
          flat.data_ptr<double>(),
          flat.data_ptr<double>() + flat.numel());
    }
    seen.push_back(net_->seen.item<double>());
    return seen;
  }

 private:
  Initialized made(const distributed::World& world, json config) {
    config["train_batch_size"] = 8;
    config["gradient_accumulation_steps"] = 2;
    config["gradient_clipping"] = 0.5;
    config["optimizer"] = {{"type", "AdamW"}, {"params", {{"lr", 0.01}}}};
    config["scheduler"] = {
        {"type", "WarmupDecayLR"},
        {"params",
         {{"total_num_steps", 30},
          {"warmup_max_lr", 0.02},
          {"warmup_num_steps", 4}}}};
    return initialize(
        {.model = net_,
         .training_data = Samples{},
         .config = config.dump(),
         .world = world,
         .logger = Logger({.least = LogLevel::error})});
  }

  std::shared_ptr<Net> net_;
  Initialized all_;
};

inline void expect_same_bits(int stage, const RanksOptions& ranks) {
  const TemporaryFolder folder;
  const TemporaryFolder disk;
  const auto all = ways(stage, disk.path().string());
  const auto place = [&](const Way& way, int rank) {
    return folder / (way.name + "." + std::to_string(rank) + ".json");
  };
  run_ranks(ranks, [&](const distributed::World& world) {
    for (const Way& way : all) {
      SCOPED_TRACE(way.name);
      torch::manual_seed(7 + static_cast<std::uint64_t>(world.rank()));
      Training undisturbed(world, way.config);
      const auto rest = undisturbed.go_on(2 * half, half);
      std::ofstream(place(way, world.rank())) << json(rest);

      torch::manual_seed(7 + static_cast<std::uint64_t>(world.rank()));
      Training first(world, way.config);
      first.go_on(half);
      first.engine().save_checkpoint(folder / way.name);
      first.go_on(half + 1); // during the save; lost with the process
    }
  });
  run_ranks(ranks, [&](const distributed::World& world) {
    for (const Way& way : all) {
      SCOPED_TRACE(way.name);
      torch::manual_seed(99);
      Training second(world, way.config);
      second.engine().load_checkpoint(folder / way.name);
      EXPECT_EQ(second.engine().progress().global_steps, half);
      std::ifstream file(place(way, world.rank()));
      EXPECT_EQ(
          second.go_on(2 * half),
          json::parse(file).get<std::vector<double>>());
    }
  });
}

} // namespace cairn::testing::resume
