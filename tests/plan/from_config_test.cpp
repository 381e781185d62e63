// What a configuration's flags and keys change of an estimate.

#include "plan/trainings.h"

#include <cairn/config/config.h>
#include <cairn/plan/from_config.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::plan {
namespace {

using Words = std::vector<std::string>;

/// The estimate of 8 blocks of 1024 on two ranks, with these flags and this
/// DeepSpeed JSON.
Estimate with(const Words& more, const std::string& json = "{}") {
  Words flags{
      "--num-layers",
      "8",
      "--hidden-size",
      "1024",
      "--num-attention-heads",
      "16",
      "--seq-length",
      "1024",
      "--max-position-embeddings",
      "1024",
      "--vocab-size",
      "1000",
      "--tokenizer-type",
      "NullTokenizer",
      "--micro-batch-size",
      "4",
      "--global-batch-size",
      "16",
      "--hidden-dropout",
      "0",
      "--attention-dropout",
      "0",
      "--bf16"};
  flags.insert(flags.end(), more.begin(), more.end());
  const auto config =
      config::Config::resolve({.json = json, .flags = flags, .world_size = 2});
  const Cluster machine = find_cluster("dgx-h100");
  return estimate(
      on_machine(training_of(model::ModelKind::gpt, config), machine),
      layout_of(config),
      machine);
}

constexpr double input = 2.0 * 4 * 1024 * 1024; ///< bytes of a block's input
/// … and of what it keeps for backward, with the numbers of norms and softmax.
constexpr double block = 16 * input + 4 * 1024 * (4.0 * 4 + 4 * 16);

TEST(PlanFromConfig, RecomputesOnlyTheBlocksThatFlagsSay) {
  const Words all{"--recompute-granularity", "full"};
  const auto by = [&](const std::string& method, const std::string& number) {
    Words flags = all;
    flags.insert(
        flags.end(),
        {"--recompute-method", method, "--recompute-num-layers", number});
    return with(flags);
  };
  const Estimate none = with({});
  EXPECT_DOUBLE_EQ(none.memory.activations, 8 * block);
  const Estimate every = with(all);
  EXPECT_DOUBLE_EQ(every.memory.activations, 8 * input);
  const Estimate three = by("block", "3");
  EXPECT_DOUBLE_EQ(three.memory.activations, 3 * input + 5 * block);
  EXPECT_NEAR(three.time.recompute / every.time.recompute, 3.0 / 8, 1e-9);
  EXPECT_NEAR(
      (three.hardware_tflops_per_gpu / three.model_tflops_per_gpu - 1) /
          (every.hardware_tflops_per_gpu / every.model_tflops_per_gpu - 1),
      3.0 / 8,
      1e-9);
  const Estimate pairs = by("uniform", "2");
  EXPECT_DOUBLE_EQ(pairs.memory.activations, 4 * input);
  EXPECT_GT(pairs.memory.working, every.memory.working) << "two are live";
  EXPECT_DOUBLE_EQ(pairs.time.recompute, every.time.recompute);
}

TEST(PlanFromConfig, RecomputesThePartsOfBlocksThatFlagsName) {
  const auto parts = [](const std::string& name) {
    return with(
        {"--recompute-granularity", "selective", "--recompute-modules", name});
  };
  const Estimate none = with({});
  const Estimate norms = parts("layernorm");
  EXPECT_DOUBLE_EQ(
      none.memory.activations - norms.memory.activations,
      8 * 2 * input);
  EXPECT_GT(norms.time.recompute, 0);
  const Estimate mlps = parts("mlp");
  EXPECT_DOUBLE_EQ(
      none.memory.activations - mlps.memory.activations,
      8 * 8 * input)
      << "before and after GELU, four times as wide each";
  EXPECT_GT(mlps.memory.working, none.memory.working);
  EXPECT_GT(mlps.time.recompute, 4 * norms.time.recompute);
  EXPECT_DOUBLE_EQ(parts("core_attn").time.recompute, 0) << "keeps no scores";
}

TEST(PlanFromConfig, InputsOfRecomputedBlocksMayBeOnTheHost) {
  const Estimate here = with({"--checkpoint-activations"});
  const Estimate away =
      with({"--checkpoint-activations", "--checkpoint-in-cpu"});
  EXPECT_DOUBLE_EQ(away.memory.activations, 0);
  EXPECT_DOUBLE_EQ(away.host_bytes - here.host_bytes, 2 * 8 * input)
      << "of two ranks on the node";
  const Words tensor{
      "--checkpoint-activations",
      "--tensor-model-parallel-size",
      "2"};
  Words cut = tensor;
  cut.emplace_back("--partition-activations");
  EXPECT_DOUBLE_EQ(
      with(tensor).memory.activations,
      2 * with(cut).memory.activations);
}

TEST(PlanFromConfig, MessagesRunBesideBackwardUnlessTheyMustNot) {
  const Words stage{"--zero-stage", "2"};
  const Estimate beside = with(stage);
  const std::string apart =
      R"({"zero_optimization": {"stage": 2, "overlap_comm": false}})";
  EXPECT_GT(with({}, apart).time.gradients, 2 * beside.time.gradients);
  EXPECT_DOUBLE_EQ(
      with({"--zero-stage", "2", "--DDP-impl", "local"}).time.gradients,
      with({}, apart).time.gradients);
  EXPECT_DOUBLE_EQ(
      with({"--zero-stage", "2", "--overlap-grad-reduce"}).time.gradients,
      beside.time.gradients);
}

TEST(PlanFromConfig, BucketsTakeMemoryOrMessages) {
  const auto stage_2 = [](const std::string& bucket) {
    return with(
        {},
        R"({"zero_optimization": {"stage": 2, "reduce_bucket_size": )" +
            bucket + "}}");
  };
  const Estimate large = stage_2("500000000");
  const Estimate small = stage_2("1000000");
  EXPECT_LT(small.memory.buckets, large.memory.buckets)
      << "down to the embedding, which has one of its own";
  EXPECT_NE(small.time.gradients, large.time.gradients);
  EXPECT_DOUBLE_EQ(
      with(
          {},
          R"({"zero_optimization": {"stage": 2,
              "allgather_bucket_size": 1000000}})")
          .time.gradients,
      small.time.gradients)
      << "both have the same buckets";
  // The engine's buckets have whole tensors, whatever is asked for.
  EXPECT_LT(stage_2("1").iteration_seconds, 2 * small.iteration_seconds);
}

TEST(PlanFromConfig, Stage3KeepsWhatIsUsedAgainSoonWithinItsLimits) {
  const auto stage_3 = [](const std::string& key, const std::string& value) {
    return with(
               {},
               R"({"zero_optimization": {"stage": 3, ")" + key +
                   "\": " + value + "}}")
        .memory.gathered_parameters;
  };
  const double all =
      2 * with({}, R"({"zero_optimization": {"stage": 0}})").parameters;
  EXPECT_NEAR(stage_3("stage3_max_live_parameters", "1000000000"), all, 1e6);
  const double blocks = 2 * 2 * 12.6e6;
  EXPECT_LT(stage_3("stage3_max_live_parameters", "1000000"), all / 2);
  EXPECT_GE(stage_3("stage3_max_live_parameters", "1000000"), blocks);
  EXPECT_LT(stage_3("stage3_max_reuse_distance", "1000000"), all * 0.9);
  const auto seconds = [](const std::string& prefetch) {
    return with(
               {},
               R"({"zero_optimization": {"stage": 3,
                   "stage3_prefetch_bucket_size": )" +
                   prefetch + "}}")
        .time.gathers;
  };
  EXPECT_GT(seconds("0"), seconds("50000000"));
}

TEST(PlanFromConfig, ProductsIn8BitsKeepTheirInputsIn8Bits) {
  const Estimate wide = with({});
  const Estimate narrow = with({"--fp8-format", "hybrid"});
  // Both norms' outputs and GELU's lose a byte of two; attention's result is
  // kept in both widths.
  EXPECT_DOUBLE_EQ(
      wide.memory.activations - narrow.memory.activations,
      8 * (1 + 1 - 1 + 4) * input / 2);
  EXPECT_DOUBLE_EQ(narrow.memory.parameters, wide.memory.parameters);
  const Estimate delayed =
      with({"--fp8-format", "hybrid", "--fp8-recipe", "delayed"});
  EXPECT_NEAR(
      delayed.memory.parameters - wide.memory.parameters,
      2 * 8 * 12.6e6,
      1e6)
      << "weights of blocks, in both orders";
}

TEST(PlanFromConfig, TheNextForwardPassHidesStatesThatVisit) {
  const auto visits = [](const std::string& part, const Words& more) {
    Words flags{
        "--zero-stage",
        "1",
        "--optimizer-cpu-offload",
        "--offload-update-on",
        "gpu",
        "--optimizer-offload-fraction",
        part};
    flags.insert(flags.end(), more.begin(), more.end());
    return with(flags).time.offload;
  };
  const double all = visits("1", {});
  EXPECT_GT(all, 0);
  EXPECT_NEAR(visits("0.5", {}) / all, 0.5, 1e-9);
  const Words beside{"--overlap-param-gather"};
  const double hidden = all - visits("1", beside);
  EXPECT_GT(hidden, 0);
  EXPECT_LT(hidden, 0.9 * all);
  EXPECT_NEAR(visits("0.9", {}) - visits("0.9", beside), hidden, 1e-9)
      << "the last layers' states visit: the whole pass hides them";
  const double a_tenth_of_the_pass = 0.1 * hidden / all;
  EXPECT_EQ(visits(std::to_string(a_tenth_of_the_pass), beside), 0);
}

TEST(PlanFromConfig, StatesMayRestInThreePlaces) {
  const auto placed = [](const std::string& ratios) {
    return with(
        {"--zero-stage", "1"},
        R"({"zero_optimization": {"offload_optimizer": {"device": "nvme",
        "nvme_path": "/x", "update_on": "gpu")" +
            ratios + "}}}");
  };
  const Estimate all = placed("");
  const Estimate three = placed(R"(, "ratio": 0.75, "cpu_ratio": 0.25)");
  const double states = all.nvme_bytes;
  EXPECT_GT(states, 0);
  EXPECT_NEAR(three.nvme_bytes, 0.5 * states, 1e-6 * states);
  EXPECT_NEAR(three.host_bytes - all.host_bytes, 0.25 * states, 1e-6 * states);
  EXPECT_LT(three.time.offload, all.time.offload);
}

TEST(PlanFromConfig, ACpuRunsItsOwnProgram) {
  Training training = gpt(2, 256, 4);
  const RunLayout layout{.micro_batch = 8, .global_batch = 8};
  const auto logits = [&](const Cluster& machine) {
    return estimate(on_machine(training, machine), layout, machine)
        .memory.logits;
  };
  // Of 16,384 tokens and 51,200 words: 8,192 tokens at a time, or 2^24 scores.
  EXPECT_NEAR(
      logits(find_cluster("h200")) - logits(find_cluster("neoverse-n1")),
      2.0 * (8192 * 51200 - (1 << 24)),
      2.0 * 51200);
  EXPECT_EQ(
      on_machine(training, find_cluster("neoverse-n1")).program.elementwise,
      Program::Elementwise::eager);
  EXPECT_EQ(
      on_machine(training, cpu_machine(1)).program.loss,
      Program::Loss::chunks_of_cpu);
  EXPECT_EQ(
      on_machine(training, find_cluster("h200")).program.elementwise,
      Program::Elementwise::compiled);
}

TEST(PlanFromConfig, CudnnsAttentionIsFor16BitsAndNewerGpus) {
  Training training = gpt(2, 256, 4);
  const auto attention = [&](const char* cluster) {
    return on_machine(training, find_cluster(cluster)).program.attention;
  };
  EXPECT_EQ(attention("h200"), Program::Attention::fast);
  EXPECT_EQ(attention("dgx2-v100"), Program::Attention::flash);
  training.value_bytes = 4;
  EXPECT_EQ(attention("h200"), Program::Attention::flash);
}

} // namespace
} // namespace cairn::plan
