#include "support/error_text.h"

#include <cairn/config/config.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace cairn::config::merge_test {
namespace {

using Words = std::vector<std::string>;

Config load(const std::string& json, Words flags, std::int64_t world = 1) {
  return Config::load(
      {.json = json, .flags = std::move(flags), .world_size = world});
}

std::string error_of(
    const std::string& json,
    Words flags,
    std::int64_t world = 1) {
  return error_text([&] { load(json, flags, world); });
}

TEST(Merge, OneSideFillsTheOther) {
  const Config config = load(
      "{zero_optimization: {stage: 2}, gradient_clipping: 0.5}",
      {"--micro-batch-size",
       "4",
       "--global-batch-size",
       "32",
       "--fp16",
       "--lr",
       "1e-4"},
      2);
  EXPECT_EQ(config.deepspeed.batch->accumulation, 4);
  EXPECT_TRUE(config.deepspeed.fp16.enabled);
  EXPECT_EQ(config.flags.deepspeed.zero_stage, 2);
  EXPECT_EQ(config.flags.regularization.clip_grad, 0.5);
  EXPECT_EQ(config.flags.precision.loss_scale_window, 1000);
  EXPECT_EQ(config.flags.precision.initial_loss_scale, 65536.0);
}

TEST(Merge, AgreeingIsFine) {
  const Config config = load(
      "{train_micro_batch_size_per_gpu: 4, fp16: {enabled: true}}",
      {"--micro-batch-size", "4", "--fp16"});
  EXPECT_EQ(config.flags.training.global_batch_size, 4);
}

TEST(Merge, DisagreeingNamesBothPlaces) {
  EXPECT_EQ(
      error_of(
          "{\n  train_micro_batch_size_per_gpu: 4\n}",
          {"--micro-batch-size", "8"}),
      "--micro-batch-size: 8 on the command line, but 4 in config:2:3 "
      "(train_micro_batch_size_per_gpu); make them equal, or give only one");
  const Config staged = Config::load(
      {.json = "{train_batch_size: 4, zero_optimization: {stage: 1}}",
       .flags = {"--zero-stage", "2"}});
  EXPECT_EQ(staged.deepspeed.zero.stage, ZeroStage::optimizer_states);
  EXPECT_EQ(staged.flags.deepspeed.zero_stage, 1);
  EXPECT_EQ(
      staged.warnings,
      (std::vector<std::string>{
          "--zero-stage 2 is overridden by 1 in config:1:43 "
          "(zero_optimization.stage): as in Megatron-DeepSpeed, the file "
          "decides"}));
  EXPECT_EQ(
      error_of("{train_batch_size: 4, fp16: {enabled: false}}", {"--fp16"}),
      "--fp16: true on the command line, but false in config:1:30 "
      "(fp16.enabled); make them equal, or give only one");
  EXPECT_EQ(
      error_of(
          "{train_batch_size: 4, gradient_clipping: 1.0}",
          {"--clip-grad", "0.5"}),
      "--clip-grad: 0.5 on the command line, but 1.0 in config:1:23 "
      "(gradient_clipping); make them equal, or give only one");
}

TEST(Merge, ValuesWithTwoForms) {
  const std::string json =
      "{train_batch_size: 4, fp16: {initial_scale_power: 12}, optimizer: "
      "{type: 'Adam', params: {betas: [0.9, 0.95]}}}";
  EXPECT_NO_THROW(load(json, {"--initial-loss-scale", "4096"}));
  EXPECT_EQ(
      error_of(json, {"--initial-loss-scale", "65536"}),
      "--initial-loss-scale: 65536 = 2^16 on the command line, but 2^12 in "
      "config:1:30 (fp16.initial_scale_power); make them equal, or give only "
      "one");
  EXPECT_EQ(
      error_of(json, {"--initial-loss-scale", "1000"}),
      "--initial-loss-scale: 1000 is no power of two; use 512 or 1024");
  EXPECT_NO_THROW(load(json, {"--adam-beta2", "0.95"}));
  EXPECT_EQ(
      error_of(json, {"--adam-beta2", "0.999"}),
      "--adam-beta2: 0.999 on the command line, but betas[1] 0.95 in "
      "config:1:91 (optimizer.params.betas); make them equal, or give only "
      "one");
}

TEST(Merge, WhoseOptimizerItIs) {
  const Config flags_only =
      load("{train_batch_size: 4}", {"--lr", "1e-3", "--adam-beta2", "0.95"});
  EXPECT_EQ(flags_only.deepspeed.optimizer.type, "adam");
  EXPECT_EQ(flags_only.deepspeed.optimizer.params->lr, 1e-3);
  EXPECT_EQ(flags_only.deepspeed.optimizer.params->weight_decay, 0.01);
  EXPECT_EQ((*flags_only.deepspeed.optimizer.params->betas)[1], 0.95);

  const std::string json =
      "{train_batch_size: 4, optimizer: {type: 'AdamW', params: {lr: 2e-3}}}";
  EXPECT_FALSE(load(json, {}).deepspeed.optimizer.params->weight_decay);
  EXPECT_NO_THROW(load(json, {"--optimizer", "adam"}));
  EXPECT_NE(error_of(json, {"--optimizer", "sgd"}), "");
  EXPECT_NE(error_of(json, {"--lr", "1e-3"}), "");
  EXPECT_NE(
      error_of(
          "{train_batch_size: 4}",
          {"--lr", "1", "--optimizer", "sgd", "--adam-beta1", "0.5"}),
      "");
}

TEST(Merge, AutoInTheFileIsFilledByAFlag) {
  EXPECT_EQ(
      load("{train_batch_size: 'auto'}", {"--global-batch-size", "8"})
          .deepspeed.batch->train,
      8);
}

TEST(Merge, DegreesDivideTheWorld) {
  const Config config = load(
      "{train_micro_batch_size_per_gpu: 1}",
      {"--tensor-model-parallel-size",
       "2",
       "--pipeline-model-parallel-size",
       "2"},
      16);
  EXPECT_EQ(config.data_parallel_size, 4);
  EXPECT_EQ(config.deepspeed.batch->train, 4);
  EXPECT_EQ(
      error_of(
          "{train_batch_size: 4}",
          {"--tensor-model-parallel-size", "3"},
          8),
      "--tensor-model-parallel-size: world size 8 is not a multiple of tensor "
      "3 x pipeline 1 x context 1; start a multiple of 3 ranks");
  EXPECT_NE(
      error_of(
          "{train_batch_size: 4}",
          {"--tensor-model-parallel-size",
           "9223372036854775807",
           "--pipeline-model-parallel-size",
           "9223372036854775807"},
          8),
      "");
  EXPECT_NE(
      error_of(
          "{train_batch_size: 4, pipeline: {stages: 2}}",
          {"--pipeline-model-parallel-size", "4"},
          4),
      "");
}

TEST(Merge, MegatronsDistributedOptimizerIsStageOne) {
  EXPECT_EQ(
      load("{train_batch_size: 4}", {"--use-distributed-optimizer"})
          .flags.deepspeed.zero_stage,
      1);
  EXPECT_NE(
      error_of(
          "{train_batch_size: 4, zero_optimization: {stage: 0}}",
          {"--use-distributed-optimizer"}),
      "");
}

TEST(Merge, GradientsInFp32) {
  const auto types = [](const Words& flags) {
    const Config config = load("{train_batch_size: 4}", flags);
    return std::pair(
        config.deepspeed.gradients.communication_data_type,
        config.deepspeed.data_types.grad_accum_dtype);
  };
  const std::optional none = std::optional<DataType>();
  const std::optional fp32 = DataType::fp32;
  EXPECT_EQ(types({"--bf16"}), std::pair(none, none));
  EXPECT_EQ(types({"--bf16", "--fp32-allreduce"}), std::pair(fp32, none));
  EXPECT_EQ(
      types({"--fp16", "--accumulate-allreduce-grads-in-fp32"}),
      std::pair(fp32, fp32));
  EXPECT_EQ(
      error_of(
          "{train_batch_size: 4, communication_data_type: \"bf16\"}",
          {"--fp32-allreduce"}),
      "--fp32-allreduce: fp32 on the command line, but \"bf16\" in "
      "config:1:23 (communication_data_type); make them equal, or give only "
      "one");
  EXPECT_NO_THROW(load(
      "{train_batch_size: 4, communication_data_type: \"fp32\"}",
      {"--fp32-allreduce"}));
  EXPECT_NE(
      error_of(
          "{train_batch_size: 4, data_types: {grad_accum_dtype: \"bf16\"}}",
          {"--bf16", "--accumulate-allreduce-grads-in-fp32"}),
      "");
  EXPECT_EQ(
      types({"--bf16", "--main-grads-dtype", "bf16"}),
      std::pair(none, std::optional(DataType::bf16)));
  EXPECT_NE(
      error_of(
          "{train_batch_size: 4}",
          {"--bf16",
           "--main-grads-dtype",
           "bf16",
           "--accumulate-allreduce-grads-in-fp32"}),
      "");
}

TEST(Merge, OffloadHasFlagsToo) {
  const auto offload = [](const Words& flags) {
    return *load("{train_batch_size: 4}", flags)
                .deepspeed.zero.offload_optimizer;
  };
  const Words all{"--zero-stage", "1", "--optimizer-cpu-offload"};
  EXPECT_EQ(offload(all).device, OffloadDevice::cpu);
  EXPECT_EQ(offload(all).ratio, 1);
  const auto with = [&](const Words& more) {
    Words flags = all;
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  };
  EXPECT_EQ(
      offload(with({"--optimizer-offload-fraction", "0.75"})).ratio,
      0.75);
  EXPECT_EQ(
      offload(with({"--offload-update-on", "gpu"})).update_on,
      OffloadUpdate::gpu);
  EXPECT_EQ(
      offload(with({"--offload-update-on", "measured"})).update_on,
      OffloadUpdate::measured);
  EXPECT_EQ(
      error_of(
          "{train_batch_size: 4}",
          {"--optimizer-offload-fraction", "0.5"}),
      "--optimizer-offload-fraction: needs an offloaded optimizer; add "
      "--optimizer-cpu-offload");
  for (const char* const place : {"cpu", "measured"}) {
    EXPECT_NE(
        error_of(
            "{train_batch_size: 4}",
            with(
                {"--optimizer-offload-fraction",
                 "0.5",
                 "--offload-update-on",
                 place})),
        "");
  }
  const char* const nvme =
      "{train_batch_size: 4, zero_optimization: {stage: 1, "
      "offload_optimizer: {device: \"nvme\", nvme_path: \"/x\"}}}";
  EXPECT_NE(error_of(nvme, {"--optimizer-cpu-offload"}), "");
  EXPECT_NO_THROW(load(nvme, {"--offload-update-on", "gpu"}));
  EXPECT_NO_THROW(load(nvme, {"--optimizer-offload-fraction", "0.5"}));
  EXPECT_NE(error_of(nvme, {"--offload-update-on", "measured"}), "");
  const char* const half =
      "{train_batch_size: 4, zero_optimization: {stage: 3, "
      "offload_optimizer: {device: \"cpu\", ratio: 0.5}}}";
  EXPECT_NO_THROW(load(half, {"--optimizer-offload-fraction", "0.5"}));
  EXPECT_NE(error_of(half, {"--optimizer-offload-fraction", "0.25"}), "");
}

TEST(Merge, NarrowStatesNeedTheirOptimizerAndBf16) {
  const char* const json = "{train_batch_size: 4}";
  const Words narrow{
      "--use-precision-aware-optimizer",
      "--exp-avg-dtype",
      "bf16",
      "--exp-avg-sq-dtype",
      "bf16"};
  Words flags = narrow;
  EXPECT_NE(error_of(json, flags), "");
  flags.emplace_back("--bf16");
  const DataTypesConfig types = load(json, flags).deepspeed.data_types;
  EXPECT_TRUE(types.precision_aware_optimizer);
  EXPECT_EQ(types.exp_avg_dtype, DataType::bf16);
  EXPECT_EQ(types.exp_avg_sq_dtype, DataType::bf16);
  EXPECT_NE(error_of(json, {"--bf16", "--exp-avg-dtype", "bf16"}), "");
  EXPECT_NE(
      error_of(
          json,
          {"--bf16",
           "--use-precision-aware-optimizer",
           "--exp-avg-sq-dtype",
           "fp16"}),
      "");
}

TEST(Merge, DdpImplSaysWhetherReductionsOverlap) {
  const auto overlaps = [](const Words& flags) {
    return load("{train_batch_size: 4}", flags).deepspeed.zero.overlap_comm;
  };
  EXPECT_EQ(overlaps({"--DDP-impl", "local"}), false);
  EXPECT_EQ(overlaps({"--DDP-impl", "local", "--zero-stage", "3"}), false);
  EXPECT_EQ(overlaps({"--DDP-impl", "torch"}), true);
  EXPECT_EQ(overlaps({"--overlap-grad-reduce"}), true);
  const char* const json =
      "{train_batch_size: 4, zero_optimization: {overlap_comm: true}}";
  EXPECT_NO_THROW(load(json, {"--DDP-impl", "torch"}));
  EXPECT_NE(error_of(json, {"--DDP-impl", "local"}), "");
}

TEST(Merge, FlagsAloneMayHaveNoBatch) {
  EXPECT_FALSE(Config::load({.flags = {"--input", "a.jsonl"}}).deepspeed.batch);
  EXPECT_EQ(
      Config::load({.flags = {"--micro-batch-size", "2"}, .world_size = 3})
          .deepspeed.batch->train,
      6);
}

TEST(Merge, TheConfigurationIsGivenOnce) {
  EXPECT_EQ(
      error_of("{train_batch_size: 4}", {"--deepspeed_config", "x.json"}),
      "--deepspeed_config: the configuration is given twice; give a file or a "
      "JSON text, once");
}

TEST(Merge, AFileNamedByAFlag) {
  const std::string path = ::testing::TempDir() + "merge_ds.json";
  std::ofstream(path) << "{\n  // sizes\n  train_batch_size: 6,\n}\n";
  const Config config = Config::load(
      {.flags = {"--deepspeed", "--deepspeed_config", path}, .world_size = 2});
  EXPECT_EQ(config.deepspeed.batch->micro, 3);
  EXPECT_EQ(
      config.given.at("train_batch_size").text(),
      path + ":3:3 (train_batch_size)");
  std::remove(path.c_str());
}

} // namespace
} // namespace cairn::config::merge_test
