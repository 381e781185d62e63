// `cairn probe` against results of transformers and plain PyTorch: every model
// of tests/golden/models and every run of tests/golden/training, on one rank
// and on several.

#include "pretrain/internal/probe.h"
#include "pretrain/probing.h"
#include "pretrain/run/named_norms.h"
#include "support/golden_tensors.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/convert.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/safetensors.h>
#include <cairn/model/parameters.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace cairn::pretrain::probe_test {
namespace {

using nlohmann::json;
using testing::run_ranks;
using testing::TemporaryFolder;
using namespace probing;

json golden_json(const std::string& name) {
  return json::parse(read_file(golden(name), 1 << 20));
}

/// The layout of a probe over ranks.
struct Spread {
  std::string name;
  int ranks = 1;
  Words flags{};
};

/// Runs a probe on ranks, and reads the file that rank 0 wrote.
Tensors probed(
    ProbeOptions options,
    const Words& flags,
    const distributed::World& world) {
  options.config.flags = flags;
  options.config.world_size = world.size();
  options.writes = world.rank() == 0;
  Probe(options).run(world, Logger({.least = LogLevel::error}));
  return world.rank() == 0 ? testing::golden_tensors(options.output)
                           : Tensors{};
}

double number(const Tensors& tensors, const std::string& name) {
  return tensors.at(name).item<double>();
}

void expect_close(
    const at::Tensor& ours,
    const at::Tensor& theirs,
    double tolerance = 1e-5) {
  ASSERT_EQ(ours.sizes(), theirs.sizes());
  EXPECT_TRUE(at::allclose(ours, theirs, 1e-5, tolerance))
      << (ours - theirs).abs().max().item<double>();
}

/// Expects all golden results of a model, and nothing else.
void expect_golden(const std::string& model, const Tensors& results) {
  const json expected = golden_json("models/" + model + "/expected.json");
  const double loss = expected["loss"];
  EXPECT_NEAR(number(results, "loss"), loss, 1e-5 * loss);
  EXPECT_EQ(
      results.at("num_parameters").item<std::int64_t>(),
      expected["num_parameters"].get<std::int64_t>());
  const double total = expected["total_grad_norm"];
  EXPECT_NEAR(number(results, "total_grad_norm"), total, 1e-5 * total);
  for (const auto& [name, norm] : expected["grad_norms"].items()) {
    const double theirs = norm;
    EXPECT_NEAR(
        number(results, "grad_norms." + name),
        theirs,
        1e-5 * std::max(theirs, 0.01))
        << name;
  }
  std::size_t logits = 0;
  for (const auto& [name, values] :
       testing::golden_tensors(golden("models/" + model + "/io.safetensors"))) {
    if (name.ends_with("logits")) {
      SCOPED_TRACE(name);
      expect_close(results.at(name), values);
      ++logits;
    }
  }
  EXPECT_EQ(results.size(), expected["grad_norms"].size() + logits + 3);
}

const std::vector<std::string> models{
    "gpt2",
    "llama",
    "bert",
    "t5_relu",
    "t5_gated_gelu"};

class ProbeLayouts : public ::testing::TestWithParam<Spread> {};

TEST_P(ProbeLayouts, GiveWhatTransformersComputes) {
  const Spread& spread = GetParam();
  const TemporaryFolder folder;
  run_ranks({.ranks = spread.ranks}, [&](const distributed::World& world) {
    for (const std::string& model : models) {
      SCOPED_TRACE(model);
      const Tensors results = probed(
          {.load = golden("models/" + model),
           .input = golden("models/" + model + "/io.safetensors"),
           .output = folder / model},
          spread.flags,
          world);
      if (world.rank() == 0) {
        expect_golden(model, results);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    ProbeLayouts,
    ::testing::Values(
        Spread{"one"},
        Spread{"tensor2", 2, tensor2},
        Spread{
            "tensor2_sequence_zero1",
            2,
            tensor2 + Words{"--sequence-parallel", "--zero-stage", "1"}},
        Spread{"data3_zero3", 3, {"--zero-stage", "3"}},
        Spread{"data3", 3},
        Spread{"pipeline2", 2, pipeline2},
        Spread{"pipeline2_zero2", 2, pipeline2 + Words{"--zero-stage", "2"}},
        Spread{"pipeline2_tensor2", 4, pipeline2 + tensor2},
        Spread{
            "pipeline2_tensor2_sequence",
            4,
            pipeline2 + tensor2 + Words{"--sequence-parallel"}},
        Spread{
            "pipeline2_micro1",
            2,
            pipeline2 + Words{"--micro-batch-size", "1"}}),
    [](const auto& info) { return info.param.name; });

/// A small RoBERTa as Hugging Face saves it, and a batch with padding.
void write_roberta(const fs::path& folder) {
  auto d = cairn::model::roberta_small_description();
  d.layers = 2;
  d.vocabulary = d.padded_vocabulary = 96;
  const auto model = cairn::models::make_model(d, {.initial_std = 0.3});
  checkpoints::NamedTensors tensors;
  for (const auto& each : model->named_parameters()) {
    const at::Tensor values = each.value().detach();
    tensors.emplace_back(
        each.key(),
        checkpoints::LazyTensor{at::kFloat, values.sizes().vec(), [values] {
                                  return values;
                                }});
  }
  checkpoints::write_huggingface(folder, d, tensors);
  at::Tensor tokens =
      at::arange(4 * 12, at::kLong).mul(7).remainder(90).add(3).view({4, 12});
  at::Tensor mask = at::ones({4, 12}, at::kLong);
  tokens[1].narrow(0, 9, 3).fill_(*d.pad_token);
  tokens[2].narrow(0, 0, 4).fill_(*d.pad_token); // and from the left
  mask.masked_fill_(tokens.eq(*d.pad_token), 0);
  checkpoints::write_safetensors(
      folder / "in.safetensors",
      {{"input_ids", tokens},
       {"attention_mask", mask},
       {"labels", at::where(tokens.remainder(3).eq(0), tokens, -100)}});
}

TEST(Probe, CutsRoBertaWithoutAChange) {
  const TemporaryFolder folder;
  const fs::path model = folder / "roberta";
  const auto roberta = [&](const char* output) {
    return ProbeOptions{
        .load = model,
        .input = model / "in.safetensors",
        .output = folder / output};
  };
  run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    write_roberta(model);
    probed(roberta("one"), {}, world);
  });
  run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    const Tensors cut = probed(
        roberta("two"),
        pipeline2 + Words{"--micro-batch-size", "1"},
        world);
    const Tensors whole = testing::golden_tensors(folder / "one");
    EXPECT_GT(whole.size(), 30U);
    for (const auto& [name, values] : cut) {
      SCOPED_TRACE(name);
      // Products of other sizes are summed in another order.
      expect_close(values, whole.at(name), 1e-4);
    }
  });
}

TEST(Probe, ReadsEveryFormat) {
  const TemporaryFolder folder;
  run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    using checkpoints::CheckpointFormat;
    for (const CheckpointFormat format :
         {CheckpointFormat::native,
          CheckpointFormat::deepspeed,
          CheckpointFormat::megatron,
          CheckpointFormat::torch}) {
      const std::string name(checkpoints::name_of(format));
      SCOPED_TRACE(name);
      checkpoints::ConvertOptions convert{.input = golden("models/gpt2")};
      convert.output = folder / name;
      convert.to = format;
      if (format == CheckpointFormat::megatron) {
        convert.split.tensor = 2;
      }
      if (world.rank() == 0) {
        checkpoints::convert(convert);
      }
      world.group().barrier();
      const Tensors results = probed(
          {.load = folder / name,
           .input = golden("models/gpt2/io.safetensors"),
           .output = folder / (name + ".out")},
          tensor2,
          world);
      if (world.rank() == 0) {
        expect_golden("gpt2", results);
      }
    }
  });
}

TEST(Probe, ComparesWithWhatTheInputHas) {
  const TemporaryFolder folder;
  run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    Tensors io = testing::golden_tensors(golden("models/gpt2/io.safetensors"));
    io["loss"] = at::full({}, 6.0, at::kDouble);
    checkpoints::write_safetensors(folder / "in", io);
    ProbeOptions options{
        .load = golden("models/gpt2"),
        .input = folder / "in",
        .output = folder / "out"};
    const ProbeReport report =
        Probe(options).run(world, Logger({.least = LogLevel::error}));
    ASSERT_EQ(report.differences.size(), 2U);
    EXPECT_EQ(report.differences[0].name, "logits");
    EXPECT_LT(report.differences[0].largest, 1e-5);
    EXPECT_EQ(report.differences[1].name, "loss");
    EXPECT_NEAR(report.differences[1].largest, 0.526580, 1e-5);
    options.logits = false;
    options.output = folder / "without";
    EXPECT_EQ(
        Probe(options)
            .run(world, Logger({.least = LogLevel::error}))
            .differences.size(),
        1U);
  });
}

at::Tensor golden_tokens() {
  const std::string bytes = read_file(golden("training/data.npy"), 1 << 20);
  at::Tensor tokens = at::empty({30, 4, 33}, at::kInt);
  std::memcpy(
      tokens.data_ptr(),
      bytes.data() + bytes.size() - tokens.nbytes(),
      tokens.nbytes());
  return tokens;
}

/// The configuration of a run in runs.json: Megatron's schedule and its rule
/// for weight decay in Megatron's flags, all else in a JSON.
struct RunConfig {
  json file;
  Words flags;
};

RunConfig config_of(const json& run, int data_parallel) {
  RunConfig result;
  const int accumulation = run["accumulation"];
  result.file = {
      {"train_batch_size", 4},
      {"train_micro_batch_size_per_gpu", 4 / accumulation / data_parallel},
      {"gradient_clipping", run["clip"]},
      {"amp", {{"enabled", run["autocast_bf16"]}}}};
  const auto text = [](const json& value) { return value.dump(); };
  if (run["lr_schedule"] == "cosine") {
    result.flags = {
        "--lr",
        "1e-3",
        "--min-lr",
        "1e-4",
        "--lr-decay-style",
        "cosine",
        "--lr-warmup-iters",
        "5",
        "--weight-decay",
        text(run["weight_decay"]),
        "--adam-beta1",
        text(run["betas"][0]),
        "--adam-beta2",
        text(run["betas"][1])};
    return result;
  }
  json params{{"lr", run["lr"][0]}, {"weight_decay", run["weight_decay"]}};
  const bool sgd = run["optimizer"] == "sgd";
  if (sgd) {
    params["momentum"] = 0.9;
  } else {
    params["betas"] = run["betas"];
    params["eps"] = run["eps"];
    params["adam_w_mode"] = run["optimizer"] == "adamw";
  }
  result.file["optimizer"] = {
      {"type", sgd ? "SGD" : "Adam"},
      {"params", params}};
  return result;
}

void expect_run(const json& run, const Tensors& results) {
  const bool autocast = run["autocast_bf16"];
  for (int step = 0; step < 30; ++step) {
    SCOPED_TRACE(step);
    const auto at = [&](const char* name) {
      return results.at(name)[step].item<double>();
    };
    const double tolerance = autocast ? 2e-2 : step < 10 ? 1e-4 : 1e-3;
    const double loss = run["loss"][step];
    ASSERT_NEAR(at("loss"), loss, tolerance * loss);
    const double norm = run["grad_norm"][step];
    EXPECT_NEAR(at("grad_norm"), norm, 10 * tolerance * norm);
    EXPECT_NEAR(at("lr"), run["lr"][step].get<double>(), 1e-12);
  }
  for (const auto& [name, norm] : run["final_param_norms"].items()) {
    const double theirs = norm;
    EXPECT_NEAR(
        number(results, "final_param_norms." + name),
        theirs,
        (autocast ? 2e-2 : 1e-3) * theirs)
        << name;
    EXPECT_EQ(results.at("grad_norms." + name).numel(), 30) << name;
  }
}

class ProbeTraining : public ::testing::TestWithParam<Spread> {};

TEST_P(ProbeTraining, FollowsEveryRunOfPyTorch) {
  const Spread& spread = GetParam();
  const int data = spread.name.starts_with("data") ? spread.ranks : 1;
  const TemporaryFolder folder;
  const json runs = golden_json("training/runs.json");
  run_ranks({.ranks = spread.ranks}, [&](const distributed::World& world) {
    const fs::path input = folder / fmt::format("in{}", world.rank());
    checkpoints::write_safetensors(input, {{"data", golden_tokens()}});
    for (const json& run : runs) {
      // A micro batch of one cannot be shared, and amp has one copy of
      // everything.
      if (run["micro_batch"].get<int>() < data ||
          (run["autocast_bf16"].get<bool>() && spread.ranks > 1)) {
        continue;
      }
      const std::string name = run["name"];
      SCOPED_TRACE(name);
      const RunConfig config = config_of(run, data);
      ProbeOptions options{
          .load = golden("models/gpt2"),
          .input = input,
          .output = folder / name};
      options.train = true;
      options.logits = false;
      options.config.file = folder.write(
          fmt::format("{}.{}.json", name, world.rank()),
          config.file.dump());
      const Tensors results =
          probed(options, config.flags + spread.flags, world);
      if (world.rank() == 0) {
        expect_run(run, results);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Table,
    ProbeTraining,
    ::testing::Values(
        Spread{"one"},
        Spread{"tensor2", 2, tensor2},
        Spread{"data2_zero2", 2, {"--zero-stage", "2"}},
        Spread{"pipeline2", 2, pipeline2}),
    [](const auto& info) { return info.param.name; });

TEST(Probe, TrainsOnHuggingFacesNamesToo) {
  const TemporaryFolder folder;
  const json run = golden_json("training/runs.json")[0];
  run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    const at::Tensor tokens = golden_tokens().narrow(0, 0, 3);
    checkpoints::write_safetensors(
        folder / "in",
        {{"input_ids", tokens.to(at::kLong)}, {"labels", tokens}});
    ProbeOptions options{
        .load = golden("models/gpt2"),
        .input = folder / "in",
        .output = folder / "out"};
    options.train = true;
    options.config.file =
        folder.write("ds.json", config_of(run, 1).file.dump());
    const Tensors results = probed(options, {}, world);
    EXPECT_EQ(
        results.at("logits").sizes(),
        (std::vector<std::int64_t>{3, 4, 33, 512}));
    for (int step = 0; step < 3; ++step) {
      const double loss = run["loss"][step];
      EXPECT_NEAR(results.at("loss")[step].item<double>(), loss, 1e-4 * loss);
    }
  });
}

TEST(NamedNorms, HaveCairnsNamesWhereHuggingFaceHasNoSuchModel) {
  const auto megatrons = model::t5_description(
      {.layers = 1, .hidden = 8, .heads = 2, .sequence = 4, .vocabulary = 16});
  const NamedNorms norms(megatrons);
  EXPECT_FALSE(norms.names_are_hugging_faces());
  const auto parameters = model::model_parameters(megatrons);
  ASSERT_EQ(norms.names().size(), parameters.size());
  EXPECT_EQ(norms.names().front(), parameters.front().name);
  EXPECT_TRUE(NamedNorms(model::gpt_description({})).names_are_hugging_faces());
}

} // namespace
} // namespace cairn::pretrain::probe_test
