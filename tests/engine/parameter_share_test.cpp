#include "support/error_text.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/engine/initialize.h>
#include <cairn/nn/mixture.h>
#include <cairn/pipeline/pipeline_module.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

// Stages of a user's own with a parameter of the same name: it is one
// parameter, although nobody has tied it.

namespace cairn::engine::parameter_share_test {
namespace {

using nlohmann::json;
using pipeline::LayerSpec;
using torch::nn::Linear;

constexpr int steps = 4;
constexpr int micro_batches = 4; ///< of a step, over all ranks
constexpr std::int64_t width = 6;

at::Tensor waves(at::IntArrayRef sizes, double phase) {
  return at::sin(
             at::arange(c10::multiply_integers(sizes), at::kFloat) * 0.7 +
             phase)
      .view(sizes);
}

/// A layer with the same values wherever it is built.
Linear filled(double phase, std::int64_t outputs = width) {
  Linear linear(width, outputs);
  const at::NoGradGuard no_grad;
  linear->weight.copy_(waves({outputs, width}, phase) * 0.4);
  linear->bias.copy_(waves({outputs}, phase) * 0.1);
  return linear;
}

struct Batch {
  explicit Batch(int number)
      : x(waves({3, width}, number)), label(waves({3, width}, 50 + number)) {}
  at::Tensor x;
  at::Tensor label;
};

at::Tensor loss_of(const at::Tensor& y, const at::Tensor& label) {
  return at::mse_loss(y, label);
}

/// The model of all stages together, as libtorch alone trains it.
struct Whole {
  Linear shared = filled(1);
  Linear first = filled(2);
  Linear last = filled(3);
  std::vector<at::Tensor> parameters;
  std::unique_ptr<torch::optim::AdamW> optimizer;

  Whole() {
    for (const Linear& each : {shared, first, last}) {
      parameters.push_back(each->weight);
      parameters.push_back(each->bias);
    }
    optimizer = std::make_unique<torch::optim::AdamW>(
        parameters,
        torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
  }

  struct Point {
    double loss = 0;
    double norm = 0;
  };
  Point step(int number) {
    optimizer->zero_grad();
    Point point;
    for (int i = 0; i < micro_batches; ++i) {
      const Batch batch(number * micro_batches + i);
      const at::Tensor y = shared(last(at::tanh(first(shared(batch.x)))));
      const at::Tensor loss = loss_of(y, batch.label) / micro_batches;
      loss.backward();
      point.loss += loss.item<double>();
    }
    point.norm = torch::nn::utils::clip_grad_norm_(parameters, 0.5);
    optimizer->step();
    return point;
  }
};

/// [shared, first, tanh | last, shared]
std::shared_ptr<pipeline::PipelineModule> stage(int number) {
  const auto shared =
      LayerSpec::built_by([] { return filled(1); }).named("shared");
  return std::make_shared<pipeline::PipelineModule>(
      std::vector<LayerSpec>{
          shared,
          LayerSpec::built_by([] { return filled(2); }).named("first"),
          [](const at::Tensor& x) { return at::tanh(x); },
          LayerSpec::built_by([] { return filled(3); }).named("last"),
          shared},
      pipeline::PipelineModuleOptions{
          .stage = number,
          .stages = 2,
          .partition = {.kind = pipeline::PartitionMethod::Kind::uniform},
          .loss = loss_of});
}

json settings(int zero, int data) {
  return {
      {"train_micro_batch_size_per_gpu", 3},
      {"gradient_accumulation_steps", micro_batches / data},
      {"gradient_clipping", 0.5},
      {"optimizer",
       {{"type", "AdamW"}, {"params", {{"lr", 1e-2}, {"weight_decay", 0.1}}}}},
      {"zero_optimization",
       {{"stage", zero}, {"stage3_param_persistence_threshold", 8}}}};
}

void expect_one_parameter(const distributed::World& world, int zero) {
  SCOPED_TRACE("ZeRO " + std::to_string(zero));
  const int data = world.size() / 2;
  const distributed::ProcessMesh mesh(
      world.group(),
      {.data = data, .pipeline = 2});
  auto engine =
      initialize({.model = stage(mesh.coordinate(distributed::Axis::pipeline)),
                  .mesh = mesh,
                  .config = settings(zero, data).dump(),
                  .world = world,
                  .logger = Logger({.least = LogLevel::error})})
          .engine;
  Whole whole;
  const distributed::ProcessGroup& sharing = mesh.data_context();
  for (int i = 0; i < steps; ++i) {
    int next = i * micro_batches + sharing.rank() * micro_batches / data;
    const at::Tensor loss = engine.train_batch([&] {
      const Batch batch(next++);
      return std::optional<pipeline::MicroBatch>({{batch.x}, {batch.label}});
    });
    const Whole::Point wanted = whole.step(i);
    const double mean = sharing.all_reduce(loss.to(at::kDouble).view({1}))
                            .wait()
                            .item<double>() /
        data;
    EXPECT_NEAR(mean, wanted.loss, 1e-5) << "step " << i;
    // The norm counts it once, with the gradients of both stages.
    EXPECT_NEAR(engine.gradient_norm().value(), wanted.norm, 1e-4)
        << "step " << i;
  }
  EXPECT_TRUE(at::allclose(
      engine.full_parameter("shared.weight"),
      whole.shared->weight,
      1e-4,
      1e-5));
}

TEST(ParameterShare, SumsGradientsOfStagesThatHaveTheSameName) {
  for (const int ranks : {2, 4}) {
    testing::run_ranks({.ranks = ranks}, [](const distributed::World& world) {
      for (int zero = 0; zero <= 3; ++zero) {
        expect_one_parameter(world, zero);
      }
    });
  }
}

TEST(ParameterShare, StagesMustAgreeOnAShape) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    const distributed::ProcessMesh mesh(world.group(), {.pipeline = 2});
    const int place = mesh.coordinate(distributed::Axis::pipeline);
    const auto linear = [](std::int64_t outputs) {
      return LayerSpec::built_by([outputs] { return filled(1, outputs); })
          .named("shared");
    };
    try {
      initialize(
          {.model = std::make_shared<pipeline::PipelineModule>(
               std::vector<LayerSpec>{linear(width), linear(width + 1)},
               pipeline::PipelineModuleOptions{.stage = place, .stages = 2}),
           .mesh = mesh,
           .config = settings(0, 1).dump(),
           .world = world,
           .logger = Logger({.least = LogLevel::error})});
      ADD_FAILURE() << "two parameters of one name";
    } catch (const std::exception& error) {
      EXPECT_THAT(
          error.what(),
          ::testing::HasSubstr("ranks of one model disagree"));
    }
  });
}

struct WithExperts : torch::nn::Module {
  explicit WithExperts(const distributed::ProcessGroup& owners)
      : mixture(register_module(
            "mixture",
            std::make_shared<nn::Mixture>(
                nn::LayerContext{.expert_group = owners},
                nn::MixtureOptions{
                    .expert = {.hidden = 4, .ffn = 8},
                    .experts = 2}))) {}
  at::Tensor forward(const at::Tensor& x) { return mixture->forward(x).hidden; }
  std::shared_ptr<nn::Mixture> mixture;
};

TEST(ParameterShare, ExpertsAreSharedOutAsTheMeshSays) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    const auto begin = [&](const distributed::MeshShape& shape) {
      initialize(
          {.model = std::make_shared<WithExperts>(world.group()),
           .mesh = distributed::ProcessMesh(world.group(), shape),
           .config = settings(1, 2).dump(),
           .world = world,
           .logger = Logger({.least = LogLevel::error})});
    };
    begin({.data = 2, .expert = 2});
    EXPECT_THAT(
        error_text<UsageError>([&] { begin({.data = 2}); }),
        ::testing::HasSubstr(
            "mixture.experts.up.weight: the mesh shares out experts "
            "over other ranks than the model (1 of 2 experts "
            "here, expert degree 1)"));
  });
}

} // namespace
} // namespace cairn::engine::parameter_share_test
