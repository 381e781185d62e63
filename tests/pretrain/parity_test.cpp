#include "pretrain/build_model.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/initialize.h>
#include <cairn/models/presets.h>
#include <cairn/models/transformer.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// The parity table: however a small GPT is spread over ranks, it follows the
// loss curve of one process.

namespace cairn::pretrain::parity_test {
namespace {

using distributed::Axis;
using distributed::ProcessMesh;
using nlohmann::json;
using testing::run_ranks;
using testing::TemporaryFolder;

constexpr int steps = 6;
constexpr int micro_batches = 4; ///< of a step, over all ranks
constexpr std::int64_t sequence = 16;
constexpr std::int64_t unused_positions = 4; ///< so gradients have zeros
constexpr int chance_zeros = 3; ///< gradients that happen to cancel out
constexpr std::int64_t hidden = 32;
constexpr std::int64_t vocabulary = 50;

/// How a run is spread.
struct Row {
  std::string name;
  int tensor = 1;
  int data = 1;
  int pipeline = 1;
  int stage = 0;
  bool sequence_parallel = false;
  bool recompute = false;
  std::string schedule = "1f1b";
  int ranks() const { return tensor * data * pipeline; }
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

struct Point {
  double loss = 0;
  double norm = 0;
  // What logs can have besides.
  double zeros = 0;
  double weights = 0;
  ElementSums variance{};
};
using Curve = std::vector<Point>;

checkpoints::ModelDescription small_gpt() {
  return models::gpt_description(
      {.layers = 4,
       .hidden = hidden,
       .heads = 4,
       .sequence = sequence + unused_positions,
       .vocabulary = vocabulary,
       .padded_vocabulary = 64});
}

at::Tensor tokens_of(int step, int number) {
  return at::remainder(
      at::arange(2 * (sequence + 1), at::kLong).view({2, -1}) * (7 + step) +
          number * 11 + step * 3,
      vocabulary);
}

/// The configuration of a row, as `cairn pretrain` would read it.
config::Config config_of(const Row& row) {
  const json settings{
      {"train_micro_batch_size_per_gpu", 2},
      {"gradient_accumulation_steps", micro_batches / row.data},
      {"gradient_clipping", 0.5},
      {"optimizer",
       {{"type", "AdamW"}, {"params", {{"lr", 1e-2}, {"weight_decay", 0.1}}}}},
      {"zero_optimization",
       {{"stage", row.stage},
        {"reduce_bucket_size", 8000},
        {"stage3_param_persistence_threshold", 40}}}};
  std::vector<std::string> flags{
      "--tensor-model-parallel-size",
      std::to_string(row.tensor),
      "--pipeline-model-parallel-size",
      std::to_string(row.pipeline),
      "--pipeline-schedule",
      row.schedule};
  if (row.sequence_parallel) {
    flags.push_back("--sequence-parallel");
  }
  if (row.recompute) {
    flags.push_back("--checkpoint-activations");
  }
  return config::Config::load(
      {.json = settings.dump(), .flags = flags, .world_size = row.ranks()});
}

struct Training {
  Training(const Row& row, const distributed::World& world)
      : mesh(
            world.group(),
            {.data = row.data, .pipeline = row.pipeline, .tensor = row.tensor}),
        pipelined(row.pipeline > 1) {
    const Logger logger({.least = LogLevel::error});
    const config::Config config = config_of(row);
    engine.emplace(initialize({.model = build_model(
                                   small_gpt(),
                                   config,
                                   mesh,
                                   at::kCPU,
                                   logger,
                                   build_options(config.flags)),
                               .mesh = mesh,
                               .settings = config,
                               .world = world,
                               .logger = logger})
                       .engine);
    engine->count_zeros_in_gradient();
  }

  Point step() {
    const distributed::ProcessGroup& sharing = mesh.data_context();
    const int passes = micro_batches / sharing.size();
    const int number = static_cast<int>(engine->global_steps());
    int pass = 0;
    const auto next = [&] {
      const at::Tensor tokens =
          tokens_of(number, sharing.rank() * passes + pass++);
      return models::ModelInput{
          .tokens = tokens.narrow(1, 0, sequence),
          .labels = tokens.narrow(1, 1, sequence)};
    };
    double sum = 0;
    if (pipelined) {
      const at::Tensor loss = engine->train_batch([&] {
        const models::ModelInput input = next();
        return std::optional<pipeline::MicroBatch>(
            {{input.tokens}, {input.labels}});
      });
      sum = loss.item<double>() * passes;
    } else {
      while (pass < passes) {
        const auto output = engine->forward<models::ModelOutput>(next());
        sum += output.loss.item<double>();
        engine->backward(output.loss);
        engine->step();
      }
    }
    sum = sharing.all_reduce(at::full({1}, sum, at::kDouble))
              .wait()
              .item<double>();
    const auto sums = engine->state_sums({"exp_avg_sq", "weight"});
    EXPECT_NEAR(sums[1].norm(), engine->parameter_norm(), 1e-6);
    return {
        .loss = sum / micro_batches,
        .norm = engine->get_global_grad_norm().value(),
        .zeros = static_cast<double>(engine->zeros_in_gradient().value()),
        .weights = engine->parameter_norm(),
        .variance = sums[0]};
  }

  ProcessMesh mesh;
  bool pipelined;
  std::optional<Engine> engine;
};

/// What one process gets; computed in a child, since tests fork.
Curve reference() {
  const TemporaryFolder folder;
  run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    Training training({.name = "one process"}, world);
    std::ofstream out(folder.path() / "curve");
    out.precision(17);
    for (int i = 0; i < steps; ++i) {
      const Point point = training.step();
      out << point.loss << ' ' << point.norm << ' ' << point.zeros << ' '
          << point.weights << ' ' << point.variance.squares << ' '
          << point.variance.absolutes << ' ' << point.variance.roots << ' '
          << point.variance.largest << '\n';
    }
  });
  Curve curve(steps);
  std::ifstream in(folder.path() / "curve");
  for (Point& point : curve) {
    in >> point.loss >> point.norm >> point.zeros >> point.weights >>
        point.variance.squares >> point.variance.absolutes >>
        point.variance.roots >> point.variance.largest;
  }
  EXPECT_TRUE(in);
  EXPECT_GT(std::abs(curve.back().loss - curve.front().loss), 1e-3);
  EXPECT_NEAR(curve.front().zeros, unused_positions * hidden, chance_zeros);
  return curve;
}

const Curve& wanted() {
  static const Curve curve = reference();
  return curve;
}

void expect_near(const Point& got, int step) {
  EXPECT_NEAR(got.loss, wanted()[step].loss, 2e-5) << "step " << step;
  EXPECT_NEAR(got.norm, wanted()[step].norm, 2e-4) << "step " << step;
  EXPECT_NEAR(got.zeros, wanted()[step].zeros, chance_zeros) << "step " << step;
  EXPECT_NEAR(got.weights, wanted()[step].weights, 2e-3) << "step " << step;
  const auto expect_close = [&](double ElementSums::*sum) {
    const double wanted_sum = wanted()[step].variance.*sum;
    EXPECT_NEAR(got.variance.*sum, wanted_sum, 1e-3 * wanted_sum)
        << "step " << step;
  };
  expect_close(&ElementSums::squares);
  expect_close(&ElementSums::absolutes);
  expect_close(&ElementSums::roots);
  expect_close(&ElementSums::largest);
}

class Parity : public ::testing::TestWithParam<Row> {};

TEST_P(Parity, FollowsTheCurveOfOneProcess) {
  wanted();
  const Row& row = GetParam();
  run_ranks({.ranks = row.ranks()}, [&](const distributed::World& world) {
    Training training(row, world);
    for (int i = 0; i < steps; ++i) {
      expect_near(training.step(), i);
    }
  });
}

std::vector<Row> rows() {
  std::vector<Row> result;
  for (int stage = 0; stage <= 3; ++stage) {
    result.push_back(
        {.name = fmt::format("data2_zero{}", stage),
         .data = 2,
         .stage = stage});
    result.push_back(
        {.name = fmt::format("tensor2_zero{}", stage),
         .tensor = 2,
         .stage = stage});
    result.push_back(
        {.name = fmt::format("tensor2_data2_zero{}", stage),
         .tensor = 2,
         .data = 2,
         .stage = stage});
    result.push_back(
        {.name = fmt::format("pipeline2_zero{}", stage),
         .pipeline = 2,
         .stage = stage});
    result.push_back(
        {.name = fmt::format("data2_pipeline2_zero{}", stage),
         .data = 2,
         .pipeline = 2,
         .stage = stage});
  }
  result.push_back({.name = "pipeline4", .pipeline = 4});
  result.push_back(
      {.name = "pipeline2_gpipe", .pipeline = 2, .schedule = "gpipe"});
  result.push_back(
      {.name = "tensor2_pipeline2", .tensor = 2, .pipeline = 2, .stage = 1});
  result.push_back(
      {.name = "tensor2_pipeline2_sequence_recompute",
       .tensor = 2,
       .pipeline = 2,
       .sequence_parallel = true,
       .recompute = true});
  result.push_back({.name = "tensor4", .tensor = 4});
  result.push_back(
      {.name = "tensor2_sequence", .tensor = 2, .sequence_parallel = true});
  result.push_back(
      {.name = "tensor2_data2_sequence_zero2",
       .tensor = 2,
       .data = 2,
       .stage = 2,
       .sequence_parallel = true});
  result.push_back({.name = "recompute", .recompute = true});
  result.push_back(
      {.name = "tensor2_sequence_recompute",
       .tensor = 2,
       .sequence_parallel = true,
       .recompute = true});
  return result;
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    Parity,
    ::testing::ValuesIn(rows()),
    [](const auto& info) { return info.param.name; });

TEST(ParityOfCheckpoints, AnyLayoutLoadsWhatAnotherSaved) {
  wanted();
  const std::vector<Row> layouts{
      {.name = "one"},
      {.name = "tensor2", .tensor = 2, .stage = 1},
      {.name = "tensor2_data2",
       .tensor = 2,
       .data = 2,
       .stage = 3,
       .sequence_parallel = true},
      {.name = "data2_pipeline2", .data = 2, .pipeline = 2, .stage = 2}};
  const TemporaryFolder folder;
  for (const Row& saver : layouts) {
    run_ranks({.ranks = saver.ranks()}, [&](const distributed::World& world) {
      Training training(saver, world);
      for (int i = 0; i < steps / 2; ++i) {
        training.step();
      }
      training.engine->save_checkpoint(
          folder.path() / saver.name,
          std::nullopt,
          {},
          {.wait = true});
    });
    for (const Row& loader : layouts) {
      run_ranks(
          {.ranks = loader.ranks()},
          [&](const distributed::World& world) {
            Training training(loader, world);
            training.engine->load_checkpoint(folder.path() / saver.name);
            for (int i = steps / 2; i < steps; ++i) {
              expect_near(training.step(), i);
            }
          });
    }
  }
}

} // namespace
} // namespace cairn::pretrain::parity_test
