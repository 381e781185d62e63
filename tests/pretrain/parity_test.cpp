#include "pretrain/build_model.h"
#include "pretrain/stages.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/initialize.h>
#include <cairn/models/presets.h>
#include <cairn/models/pretraining.h>
#include <cairn/models/transformer.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// The parity table: however a small model is spread over ranks, it follows the
// loss curves of one process.

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
constexpr std::int64_t vocabulary = 50;

/// How a run is spread.
struct Row {
  std::string name;
  std::string model = "gpt";
  int tensor = 1;
  int data = 1;
  int pipeline = 1;
  int stage = 0;
  bool sequence_parallel = false;
  bool recompute = false;
  std::string schedule = "1f1b";
  std::string partition{}; ///< of the pipeline; none: the default
  int ranks() const { return tensor * data * pipeline; }
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

struct Point {
  std::vector<double> losses;
  double norm = 0;
};
using Curve = std::vector<Point>;

checkpoints::ModelDescription describe(const std::string& model) {
  const models::ModelSizes sizes{
      .layers = model == "gpt" ? 4 : 2,
      .hidden = 32,
      .heads = 4,
      .sequence = sequence,
      .vocabulary = vocabulary,
      .padded_vocabulary = 64};
  if (model == "gpt") {
    return models::gpt_description(sizes);
  }
  if (model == "bert") {
    return models::bert_description(sizes);
  }
  if (model == "bert_of_words") { // as Hugging Face's, without a binary head
    auto d = models::bert_description(sizes, models::BinaryHead::without);
    d.norm_place = checkpoints::NormPlace::after;
    return d;
  }
  auto d = models::t5_description(sizes);
  if (model == "t5_relative") { // as Google's
    d.position = checkpoints::PositionKind::relative;
    d.relative_buckets = 8;
    d.relative_distance = 12;
    d.norm = checkpoints::NormKind::rms_norm;
    d.attention_bias = d.mlp_bias = d.head_bias = false;
    d.scaled_output = true;
  }
  return d;
}

at::Tensor tokens_of(int step, int number) {
  return at::remainder(
      at::arange(2 * (sequence + 1), at::kLong).view({2, -1}) * (7 + step) +
          number * 11 + step * 3,
      vocabulary);
}

/// Of two texts: all of the first, the second without its end.
at::Tensor padding_mask(std::int64_t length) {
  at::Tensor mask = at::ones({2, length}, at::kLong);
  mask[1].narrow(0, length - 3, 3).zero_();
  return mask;
}

/// What the datasets give, made up.
data::TensorBatch batch_of(const std::string& model, int step, int number) {
  const at::Tensor text = tokens_of(step, number);
  const at::Tensor tokens = text.narrow(1, 0, sequence).contiguous();
  const at::Tensor next = text.narrow(1, 1, sequence).contiguous();
  data::TensorBatch batch;
  if (model == "gpt") {
    batch.tensors = {
        {"tokens", tokens},
        {"labels", next},
        {"loss_mask", at::ones({2, sequence})},
        {"position_ids",
         at::arange(sequence, at::kLong).expand({2, sequence})}};
  } else if (model.starts_with("bert")) {
    const at::Tensor asked = tokens.remainder(3).eq(0);
    batch.tensors = {
        {"text", tokens},
        {"types",
         at::arange(sequence, at::kLong)
             .ge(5)
             .to(at::kLong)
             .expand({2, sequence})},
        {"padding_mask", padding_mask(sequence)},
        {"labels", next.masked_fill(asked.logical_not(), -1)},
        {"loss_mask", asked.to(at::kLong)},
        {"is_random", at::tensor({number % 2, step % 2}, at::kLong)}};
  } else {
    const std::int64_t half = sequence / 2;
    batch.tensors = {
        {"text_enc", tokens},
        {"enc_mask", padding_mask(sequence)},
        {"text_dec", next.narrow(1, 0, half).contiguous()},
        {"dec_mask", padding_mask(half)},
        {"labels", next.narrow(1, 1, half).contiguous()},
        {"loss_mask", padding_mask(half)}};
  }
  return batch;
}

/// The configuration of a row, as `cairn pretrain` would read it.
config::Config config_of(const Row& row) {
  json settings{
      {"train_micro_batch_size_per_gpu", 2},
      {"gradient_accumulation_steps", micro_batches / row.data},
      {"gradient_clipping", 0.5},
      {"optimizer",
       {{"type", "AdamW"}, {"params", {{"lr", 1e-2}, {"weight_decay", 0.1}}}}},
      {"zero_optimization",
       {{"stage", row.stage},
        {"reduce_bucket_size", 8000},
        {"stage3_param_persistence_threshold", 40}}}};
  if (!row.partition.empty()) {
    settings["pipeline"] = {{"partition", row.partition}};
  }
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
  Training(const Row& the_row, const distributed::World& world)
      : row(the_row),
        description(describe(row.model)),
        mesh(
            world.group(),
            {.data = row.data,
             .pipeline = row.pipeline,
             .tensor = row.tensor}) {
    const Logger logger({.least = LogLevel::error});
    const config::Config config = config_of(row);
    check_stages(description, config);
    engine.emplace(
        initialize(
            {.model = build_model(description, config, mesh, at::kCPU, logger),
             .mesh = mesh,
             .settings = config,
             .world = world,
             .logger = logger})
            .engine);
  }

  Point step() {
    const distributed::ProcessGroup& sharing = mesh.data_context();
    const int passes = micro_batches / sharing.size();
    const int number = static_cast<int>(engine->global_steps());
    int pass = 0;
    const auto next = [&] {
      return models::pretraining_input(
          description,
          batch_of(row.model, number, sharing.rank() * passes + pass++));
    };
    std::map<std::string, double> sums;
    const auto add = [&](const auto& losses, int times) {
      for (const auto& [name, loss] : losses) {
        sums[name] += loss.template item<double>() * times;
      }
    };
    if (row.pipeline > 1) {
      engine->train_batch([&] {
        return std::optional(
            micro_batch_of(description, config::DataFlags{}, next()));
      });
      add(engine->loss_parts(), passes);
    } else {
      while (pass < passes) {
        const auto output = engine->forward<models::ModelOutput>(next());
        add(output.losses, 1);
        engine->backward(output.loss);
        engine->step();
      }
    }
    Point point{.norm = engine->get_global_grad_norm().value()};
    for (const auto& [name, sum] : sums) {
      point.losses.push_back(
          sharing.all_reduce(at::full({1}, sum, at::kDouble))
              .wait()
              .item<double>() /
          micro_batches);
    }
    return point;
  }

  Row row;
  checkpoints::ModelDescription description;
  ProcessMesh mesh;
  std::optional<Engine> engine;
};

/// What one process gets; computed in a child, since tests fork.
Curve reference(const std::string& model) {
  const TemporaryFolder folder;
  run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    Training training({.name = "one process", .model = model}, world);
    std::ofstream out(folder.path() / "curve");
    out.precision(17);
    for (int i = 0; i < steps; ++i) {
      const Point point = training.step();
      out << point.losses.size() << ' ';
      for (const double loss : point.losses) {
        out << loss << ' ';
      }
      out << point.norm << '\n';
    }
  });
  Curve curve(steps);
  std::ifstream in(folder.path() / "curve");
  for (Point& point : curve) {
    std::size_t losses = 0;
    in >> losses;
    point.losses.resize(losses);
    for (double& loss : point.losses) {
      in >> loss;
    }
    in >> point.norm;
  }
  EXPECT_TRUE(in);
  EXPECT_EQ(curve.front().losses.size(), model == "bert" ? 2U : 1U);
  EXPECT_GT(std::abs(curve.back().losses[0] - curve.front().losses[0]), 1e-3);
  return curve;
}

const Curve& wanted(const std::string& model) {
  static std::map<std::string, Curve> curves;
  const auto known = curves.find(model);
  return known != curves.end()
      ? known->second
      : curves.emplace(model, reference(model)).first->second;
}

void expect_near(const Point& got, const std::string& model, int step) {
  const Point& there = wanted(model)[static_cast<std::size_t>(step)];
  ASSERT_EQ(got.losses.size(), there.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], there.losses[i], 2e-5)
        << "step " << step << ", loss " << i;
  }
  EXPECT_NEAR(got.norm, there.norm, 2e-4) << "step " << step;
}

class Parity : public ::testing::TestWithParam<Row> {};

TEST_P(Parity, FollowsTheCurveOfOneProcess) {
  const Row& row = GetParam();
  wanted(row.model);
  run_ranks({.ranks = row.ranks()}, [&](const distributed::World& world) {
    Training training(row, world);
    for (int i = 0; i < steps; ++i) {
      expect_near(training.step(), row.model, i);
    }
  });
}

/// Of models other than GPT.
void add_rows(std::vector<Row>& result, const std::string& model) {
  const auto add = [&](Row row) {
    row.model = model;
    row.name = fmt::format("{}_{}", model, row.name);
    result.push_back(std::move(row));
  };
  for (int stage = 0; stage <= 3; ++stage) {
    add(
        {.name = fmt::format("pipeline2_zero{}", stage),
         .pipeline = 2,
         .stage = stage});
  }
  add({.name = "data2_zero1", .data = 2, .stage = 1});
  add({.name = "data2_pipeline2_zero3", .data = 2, .pipeline = 2, .stage = 3});
  add({.name = "tensor2", .tensor = 2});
  add({.name = "tensor2_pipeline2", .tensor = 2, .pipeline = 2, .stage = 1});
  add(
      {.name = "tensor2_pipeline2_sequence_recompute",
       .tensor = 2,
       .pipeline = 2,
       .stage = 2,
       .sequence_parallel = true,
       .recompute = true});
  add(
      {.name = "pipeline2_gpipe_recompute",
       .pipeline = 2,
       .recompute = true,
       .schedule = "gpipe"});
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
  add_rows(result, "bert");
  add_rows(result, "t5");
  add_rows(result, "t5_relative");
  result.push_back(
      {.name = "bert_of_words_tensor2_pipeline2",
       .model = "bert_of_words",
       .tensor = 2,
       .pipeline = 2,
       .sequence_parallel = true});
  // Cuts in the heads, and in the middle of encoder and decoder.
  for (const char* model : {"bert", "t5_relative", "t5"}) {
    for (const char* partition : {"uniform", "parameters", "type:norm"}) {
      const std::string_view method(partition);
      result.push_back(
          {.name = fmt::format(
               "{}_pipeline2_{}",
               model,
               method.substr(method.find(':') + 1)),
           .model = model,
           .pipeline = 2,
           .stage = 3,
           .partition = partition});
    }
  }
  result.push_back(
      {.name = "t5_pipeline4_uniform_zero3",
       .model = "t5",
       .pipeline = 4,
       .stage = 3,
       .partition = "uniform"});
  result.push_back(
      {.name = "t5_relative_pipeline4", .model = "t5_relative", .pipeline = 4});
  return result;
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    Parity,
    ::testing::ValuesIn(rows()),
    [](const auto& info) { return info.param.name; });

class ParityOfCheckpoints : public ::testing::TestWithParam<const char*> {};

TEST_P(ParityOfCheckpoints, AnyLayoutLoadsWhatAnotherSaved) {
  const std::string model = GetParam();
  wanted(model);
  std::vector<Row> layouts{
      {.name = "one"},
      {.name = "tensor2", .tensor = 2, .stage = 1},
      {.name = "tensor2_data2",
       .tensor = 2,
       .data = 2,
       .stage = 3,
       .sequence_parallel = true},
      {.name = "data2_pipeline2", .data = 2, .pipeline = 2, .stage = 2}};
  for (Row& layout : layouts) {
    layout.model = model;
  }
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
              expect_near(training.step(), model, i);
            }
          });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    ParityOfCheckpoints,
    ::testing::Values("gpt", "bert", "t5_relative"),
    [](const auto& info) { return std::string(info.param); });

} // namespace
} // namespace cairn::pretrain::parity_test
