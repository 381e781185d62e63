#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/engine/initialize.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

// A small GPT that is trained over process groups that the program has made
// itself.

namespace cairn::engine::parallel_groups {

using distributed::Axis;
using distributed::ParallelGroups;
using distributed::ProcessGroup;
using distributed::ProcessMesh;
using distributed::World;
using nlohmann::json;

constexpr int updates = 4;
constexpr int rows = 2;
constexpr int columns = 8;

/// The groups of Cairn's own mesh.
inline ParallelGroups groups_of(const ProcessMesh& mesh) {
  return {
      .data = mesh.along(Axis::data),
      .pipeline = mesh.along(Axis::pipeline),
      .tensor = mesh.along(Axis::tensor)};
}

inline json zero_config(int stage) {
  return {
      {"train_micro_batch_size_per_gpu", rows},
      {"gradient_clipping", 0.5},
      {"optimizer",
       {{"type", "AdamW"}, {"params", {{"lr", 1e-2}, {"weight_decay", 0.1}}}}},
      {"zero_optimization",
       {{"stage", stage},
        {"reduce_bucket_size", 2000},
        {"stage3_param_persistence_threshold", 20}}}};
}

struct Values {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<at::Tensor> weights;  ///< both halves of each parameter
  std::vector<std::string> names{}; ///< of the weights
};

inline void expect_same(const Values& got, const Values& wanted) {
  EXPECT_EQ(got.losses, wanted.losses);
  EXPECT_EQ(got.norms, wanted.norms);
  ASSERT_EQ(got.weights.size(), wanted.weights.size());
  for (std::size_t i = 0; i < got.weights.size(); ++i) {
    EXPECT_TRUE(at::equal(got.weights[i], wanted.weights[i])) << i;
  }
}

/// A small GPT whose layers the ranks of the tensor group divide.
class GptTraining {
 public:
  /// Trains over `groups`; a mesh that is given has these same groups.
  GptTraining(
      const World& world,
      const ParallelGroups& groups,
      const json& config,
      const std::optional<ProcessMesh>& mesh = std::nullopt)
      : groups_(groups),
        net_(models::make_model(
            model::gpt_description(
                {.layers = 2,
                 .hidden = 16,
                 .heads = 2,
                 .sequence = columns,
                 .vocabulary = 61}),
            {.tensor_group = groups.tensor,
             .device = at::Device(world.device_name())})),
        engine_(initialize({.model = net_,
                            .mesh = mesh,
                            .parallel_groups =
                                mesh ? std::nullopt : std::optional(groups),
                            .config = config.dump(),
                            .world = world,
                            .logger = Logger({.least = LogLevel::error})})
                    .engine) {}

  Engine& engine() { return engine_; }

  /// The mean loss of one update. A rank has one micro batch, or both of two if
  /// it trains alone.
  double step(double factor = 1) {
    const int passes = groups_.data.size() == 1 ? 2 : 1;
    const auto update = engine_.progress().global_steps;
    double sum = 0;
    for (int pass = 0; pass < passes; ++pass) {
      const int number = groups_.data.rank() * passes + pass;
      const at::Tensor tokens =
          at::remainder(
              at::arange(rows * columns, at::kLong).view({rows, columns}) *
                      (7 + update) +
                  number * 11,
              61)
              .to(engine_.device());
      const auto output =
          engine_.forward<models::ModelOutput>(models::ModelInput{
              .tokens = tokens,
              .labels = (tokens + 5).remainder(61)});
      sum += output.loss.item<double>();
      engine_.backward(output.loss * factor);
      engine_.step();
    }
    return groups_.data
               .all_reduce(at::full(
                   {1},
                   sum,
                   at::TensorOptions(at::kDouble).device(engine_.device())))
               .wait()
               .item<double>() /
        (passes * groups_.data.size());
  }

  Values run(int until) {
    Values values;
    while (engine_.progress().global_steps < until) {
      values.losses.push_back(step());
      values.norms.push_back(engine_.gradient_norm().value());
    }
    for (const auto& parameter : net_->named_parameters()) {
      values.names.push_back(parameter.key());
      values.weights.push_back(
          groups_.tensor
              .all_gather(
                  engine_.full_parameter(parameter.key()).flatten().clone())
              .wait());
    }
    return values;
  }

 private:
  ParallelGroups groups_;
  std::shared_ptr<models::Transformer> net_;
  Engine engine_;
};

} // namespace cairn::engine::parallel_groups
