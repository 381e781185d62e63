#include "config/keys/json_tree.h"
#include "config/keys/key.h"
#include "support/error_text.h"

#include <cairn/config/config.h>

#include <gtest/gtest.h>

#include <set>

namespace cairn::config::keys_test {
namespace {

Config resolved(const std::string& inside) {
  return Config::resolve({.json = "{train_batch_size: 8\n" + inside + "}"});
}

std::string error_of(const std::string& inside) {
  return error_text(
      [&] { Config::load({.json = "{train_batch_size: 8\n" + inside + "}"}); });
}

TEST(Keys, TheTableIsSound) {
  std::set<std::string> seen;
  for (const Key& key : key_table()) {
    EXPECT_TRUE(seen.emplace(key.name).second) << key.name;
    for (const std::string_view alias : words_in(key.aliases)) {
      EXPECT_TRUE(seen.insert(join_path(key.parent(), alias)).second) << alias;
    }
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_TRUE(key.help.ends_with(".")) << key.name;
    if (!key.parent().empty()) {
      const Key* section = find_key(key.parent());
      ASSERT_NE(section, nullptr) << key.name;
      EXPECT_EQ(section->kind, Key::Kind::section) << key.name;
    }
    if (key.support.kind != Support::Kind::honoured) {
      EXPECT_FALSE(key.support.reason.empty()) << key.name;
    }
    if (!key.moved_to.empty()) {
      EXPECT_NE(find_key(join_path(key.parent(), key.moved_to)), nullptr);
    }
  }
}

// Every default must itself be readable, or a printed configuration could not
// be read back.
TEST(Keys, WhatIsPrintedReadsBack) {
  const Config first = Config::resolve(
      {.json = R"({"train_batch_size": 8, "zero_optimization": {"stage": 3,
        "offload_param": {"device": "nvme", "nvme_path": "/x"},
        "offload_optimizer": {"device": "cpu"}},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "betas": [0.9, 0.95]}}})"});
  const Json printed = Json::parse(first.json());
  const Config second = Config::resolve({.json = printed["deepspeed"].dump()});
  EXPECT_EQ(Json::parse(second.json()), printed);
}

TEST(Keys, UnknownKeysNameThePlaceAndTheNearest) {
  EXPECT_EQ(
      error_of("  zero_optimization: {stge: 2}"),
      "config:2:23 (zero_optimization.stge): unknown key; did you mean "
      "\"stage\"?");
  EXPECT_EQ(
      error_of("gradient_cliping: 1"),
      "config:2:1 (gradient_cliping): unknown key; did you mean "
      "\"gradient_clipping\"?");
  EXPECT_EQ(
      error_of("reduce_bucket_size: 5"),
      "config:2:1 (reduce_bucket_size): unknown key; did you mean "
      "zero_optimization.reduce_bucket_size?");
  EXPECT_EQ(
      error_of("\"a\\nb\\u0007c\": 1"),
      "config:2:1 (a\\x0ab\\x07c): unknown key");
  EXPECT_EQ(error_of("qqqqqqq: 1"), "config:2:1 (qqqqqqq): unknown key");
  EXPECT_EQ(
      error_of("\"zero_optimization.stage\": 1").substr(0, 50),
      "config:2:1 (zero_optimization.stage): unknown key;");
}

TEST(Keys, WrongTypesShowTheValue) {
  EXPECT_EQ(
      error_of("fp16: {enabled: [1]}"),
      "config:2:8 (fp16.enabled): expected true or false, got [1]");
  EXPECT_EQ(
      error_of("zero_optimization: {stage: 4}"),
      "config:2:21 (zero_optimization.stage): 4 is out of range; it must be 0 "
      "to 3");
  EXPECT_EQ(
      error_of("zero_optimization: {reduce_bucket_size: 1.5}"),
      "config:2:21 (zero_optimization.reduce_bucket_size): expected an "
      "integer, got 1.5");
  EXPECT_EQ(
      error_of("zero_optimization: {offload_param: {device: 'cpi'}}"),
      "config:2:37 (zero_optimization.offload_param.device): expected "
      "\"none\", \"cpu\" or \"nvme\", got \"cpi\"; did you mean \"cpu\"?");
  EXPECT_EQ(
      error_of("fp16: 3"),
      "config:2:1 (fp16): expected an object { … }, got 3");
  EXPECT_EQ(
      error_of("steps_per_print: 'x'"),
      "config:2:1 (steps_per_print): expected an integer, got \"x\"");
  EXPECT_EQ(
      error_of("gradient_predivide_factor: 0"),
      "config:2:1 (gradient_predivide_factor): 0 is out of range; it must be "
      "greater than 0");
  EXPECT_NE(error_of("optimizer: {type: 'Adam', params: {betas: [1]}}"), "");
  EXPECT_NE(error_of("tensorboard: {job_name: 3}"), "");
  EXPECT_NE(error_of("steps_per_print: true"), "");
  EXPECT_NE(error_of("gradient_clipping: null"), "");
}

TEST(Keys, AutoIsTheDefaultButForTheBatchAndTheLearningRate) {
  EXPECT_EQ(
      resolved("gradient_clipping: 'auto'").deepspeed.gradients.clipping,
      1.0);
  EXPECT_FALSE(
      resolved("pipeline: {stages: 'auto'}").deepspeed.pipeline.stages);
  EXPECT_EQ(
      error_text([] { Config::load({.json = "{train_batch_size: 'auto'}"}); }),
      "config:1:2 (train_batch_size): \"auto\" is filled in by nobody here; "
      "give a number, or set --micro-batch-size or --global-batch-size");
  const auto batch = Config::load({.json = "{train_batch_size: 8, "
                                           "train_micro_batch_size_per_gpu: "
                                           "'auto'}"})
                         .deepspeed.batch;
  EXPECT_EQ(batch->micro, 8);
  const std::string json =
      "{train_batch_size: 8, optimizer: {type: 'Adam', params: {lr: 'auto'}}}";
  EXPECT_EQ(
      error_text([&] { Config::load({.json = json}); }),
      "config:1:58 (optimizer.params.lr): \"auto\" is filled in by nobody "
      "here; give a number, or set --lr");
  EXPECT_EQ(
      Config::load({.json = json, .flags = {"--lr", "0.5"}})
          .deepspeed.optimizer.params->lr,
      0.5);
}

TEST(Keys, SettingsOfPythonAreRefusedByName) {
  EXPECT_NO_THROW(Config::load(
      {.json = "{train_batch_size: 8, disable_python_gc: false, "
               "pipeline: {use_reentrant: true}}"}));
  for (const char* text :
       {"disable_python_gc: true", "pipeline: {use_reentrant: false}"}) {
    const std::string json = std::string("{train_batch_size: 8, ") + text + "}";
    EXPECT_NE(
        error_text([&] {
          Config::load({.json = json});
        }).find("known to DeepSpeed, not supported by Cairn"),
        std::string::npos)
        << text;
  }
}

TEST(Keys, OfNamesEquallyNearTheOneThatStartsAlike) {
  EXPECT_EQ(
      error_text([] { Config::load({.json = "{bfp16: {}}"}); }),
      "config:1:2 (bfp16): unknown key; did you mean \"bf16\"?");
}

TEST(Keys, AliasesAndDeprecatedKeysWarn) {
  const Config config =
      resolved("zero_optimization: {stage: 1, all_reduce_bucket_size: 5e8}");
  EXPECT_EQ(config.deepspeed.zero.allgather_bucket_size, 500000000);
  EXPECT_EQ(
      config.warnings,
      std::vector<std::string>{
          "config:2:31 (zero_optimization.all_reduce_bucket_size) is no key of "
          "DeepSpeed's; read as allgather_bucket_size"});
  EXPECT_EQ(
      resolved("zero_optimization: {stage: 2, cpu_offload: true}").warnings,
      std::vector<std::string>{
          "config:2:31 (zero_optimization.cpu_offload) is deprecated; use "
          "offload_optimizer"});
  EXPECT_TRUE(resolved("bfloat16: {enabled: true}").deepspeed.bf16.enabled);
  EXPECT_EQ(
      resolved("aio: {thread_count: 4}").deepspeed.aio.intra_op_parallelism,
      4);
}

TEST(Keys, KeysWithoutEffectWarnOnlyWhenTheyAskForSomething) {
  EXPECT_TRUE(resolved("zero_optimization: {contiguous_gradients: true}")
                  .warnings.empty());
  EXPECT_EQ(
      resolved("zero_optimization: {elastic_checkpoint: true}").warnings,
      std::vector<std::string>{
          "config:2:21 (zero_optimization.elastic_checkpoint) has no effect: "
          "every checkpoint loads at any world size"});
}

// Files as tutorials print them.
TEST(Keys, FilesFromTutorialsLoad) {
  for (
      const char* text :
      {R"({"train_batch_size": 64, "steps_per_print": 100,
            "optimizer": {"type": "Adam", "params": {"lr": 0.001,
              "betas": [0.8, 0.999], "eps": 1e-8, "weight_decay": 3e-7}},
            "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0,
              "warmup_max_lr": 0.001, "warmup_num_steps": 1000}},
            "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8,
              "all_reduce_bucket_size": 5e8,
              "offload_optimizer": {"device": "cpu"},
              "offload_param": {"device": "cpu"}}})",
       R"({"train_batch_size": 64, "amp": {"enabled": true, "opt_level": "O1"}})",
       R"({"train_micro_batch_size_per_gpu": 8,
            "optimizer": {"type": "Adam", "params": {"lr": 1e-4}},
            "fp16": {"enabled": true},
            "zero_optimization": {"stage": 1,
              "offload_optimizer": {"device": "cpu"}}})",
       R"({"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4,
            "steps_per_print": 10, "zero_optimization": {"stage": 1,
              "elastic_checkpoint": true}, "gradient_clipping": 1.0,
            "prescale_gradients": true, "fp16": {"enabled": true,
              "loss_scale": 0, "loss_scale_window": 500, "hysteresis": 2,
              "min_loss_scale": 1, "initial_scale_power": 11},
            "wall_clock_breakdown": false})"}) {
    EXPECT_NO_THROW(Config::load({.json = text, .world_size = 2})) << text;
  }
}

TEST(Keys, AmpsLossScaleIsAWordOrANumber) {
  const auto amp = [](const std::string& settings) {
    return Config::load({.json = "{train_batch_size: 2, amp: {enabled: true" +
                             settings + "}}"})
        .deepspeed.amp;
  };
  EXPECT_FALSE(amp("").loss_scale.fixed);
  EXPECT_FALSE(amp(", loss_scale: 'dynamic'").loss_scale.fixed);
  EXPECT_EQ(amp(", loss_scale: 128").loss_scale.fixed, 128);
  EXPECT_EQ(amp(", loss_scale: '128.0'").loss_scale.fixed, 128);
  EXPECT_EQ(amp(", max_loss_scale: 1024").max_loss_scale, 1024);
  EXPECT_EQ(
      error_of("amp: {loss_scale: 'dynamc'}"),
      "config:2:7 (amp.loss_scale): expected \"dynamic\" or number, got "
      "\"dynamc\"");
  EXPECT_EQ(
      error_of("amp: {loss_scale: 0}"),
      "config:2:7 (amp.loss_scale): 0 is out of range; it must be greater than "
      "0");
  EXPECT_EQ(
      error_of("amp: {enabled: true, min_loss_scale: 8, max_loss_scale: 4}"),
      "config:2:22 (amp.min_loss_scale): the smallest loss scale 8 is above "
      "the largest 4; lower it, or raise max_loss_scale");
}

TEST(Keys, OneMeaningTwiceIsAnError) {
  EXPECT_EQ(
      error_of("bf16: {}\nbfloat16: {}"),
      "config:3:1 (bfloat16): means the same as config:2:1 (bf16); keep one of "
      "them");
  EXPECT_EQ(
      error_of(
          "zero_optimization: {stage: 2, cpu_offload: true\noffload_optimizer: "
          "{device: 'cpu'}}"),
      "config:2:31 (zero_optimization.cpu_offload): is the old form of "
      "config:3:1 (zero_optimization.offload_optimizer), and both are given; "
      "drop the old one");
}

TEST(Keys, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_EQ(
      error_of("wandb: {enabled: true}"),
      "config:2:1 (wandb): known to DeepSpeed, not supported by Cairn: use "
      "tensorboard or csv_monitor instead");
  EXPECT_EQ(
      error_of("optimizer: {type: 'OneBitAdam'}"),
      "config:2:13 (optimizer.type): known to DeepSpeed, not supported by "
      "Cairn: 1-bit optimizers are not built; zero_quantized_gradients sends "
      "about as few bytes, at any ZeRO stage from 1 on, with Adam or Lamb");
  EXPECT_EQ(
      error_of("optimizer: {type: 'AdmaW'}"),
      "config:2:13 (optimizer.type): \"AdmaW\" is none of Adam, AdamW, SGD, "
      "Adagrad, Lamb, Lion, Muon; did you mean \"AdamW\"?");
  EXPECT_EQ(
      error_of("amp: {enabled: true, opt_level: 'O2'}"),
      "config:2:22 (amp.opt_level): known to DeepSpeed, not supported by "
      "Cairn: only O1, which is autocast");
  for (const char* section :
       {"sparse_attention: {mode: 'fixed'}",
        "compression_training: {layer_reduction: {}}",
        "hybrid_engine: {enabled: true}",
        "compile: {deepcompile: true}",
        "comet: {enabled: true}",
        "nebula: {enabled: true}",
        "sparse_gradients: true",
        "zero_optimization: {stage: 2, zenflow: {topk_ratio: 0.1}}"}) {
    EXPECT_NE(
        error_of(section).find("known to DeepSpeed, not supported by Cairn"),
        std::string::npos)
        << section;
  }
}

TEST(Keys, ARefusedKeyAtItsDefaultAsksForNothing) {
  EXPECT_NO_THROW(Config::load(
      {.json = R"({"train_batch_size": 8, "sparse_gradients": false,
        "optimizer": {"type": "Adam", "params": {"amsgrad": false, "max_grad_norm": 0}},
        "wandb": {"enabled": false}, "comet": {}, "amp": {"enabled": false},
        "zero_optimization": {"legacy_stage1": false}})"}));
}

TEST(Keys, SettingsOfAnotherOptimizer) {
  EXPECT_EQ(
      error_of("optimizer: {type: 'SGD', params: {lr: 1, betas: [0, 0]}}"),
      "config:2:42 (optimizer.params.betas): SGD has no \"betas\"; it is a "
      "setting of Adam, AdamW, Lamb, Lion, Muon, OneBitAdam, OneBitLamb, "
      "ZeroOneAdam, MuAdam, MuAdamW");
  EXPECT_EQ(
      error_of("scheduler: {type: 'WarmupDecayLR'}"),
      "config:2:13 (scheduler.type): WarmupDecayLR needs total_num_steps; set "
      "scheduler.params.total_num_steps");
  EXPECT_NE(error_of("optimizer: {params: {lr: 1}}"), "");
}

TEST(Keys, ThingsThatExcludeEachOther) {
  EXPECT_EQ(
      error_of("fp16: {enabled: true, at_minimum_scale: 'back'}"),
      "config:2:23 (fp16.at_minimum_scale): expected \"stop\", \"hold\" or "
      "\"roll_back\", got \"back\"");
  EXPECT_EQ(
      error_of(
          "fp16: {enabled: true, loss_scale: 2, at_minimum_scale: 'hold'}"),
      "config:2:38 (fp16.at_minimum_scale): a fixed loss scale never comes to "
      "a minimum; drop this, or loss_scale");
  EXPECT_EQ(
      error_of("fp16: {enabled: true}\nbf16: {enabled: true}"),
      "config:2:8 (fp16.enabled): fp16 and bf16 exclude each other; drop this "
      "or config:3:8 (bf16.enabled)");
  EXPECT_EQ(
      error_of("amp: {enabled: true}\nzero_optimization: {stage: 1}"),
      "config:2:7 (amp.enabled): amp and zero_optimization exclude each other; "
      "drop amp or zero_optimization");
  EXPECT_EQ(
      error_of("zero_optimization: {stage: 2, offload_param: {device: 'cpu'}}"),
      "config:2:31 (zero_optimization.offload_param): offloading parameters "
      "needs stage 3, not stage 2; set stage to 3, or offload the optimizer "
      "only");
  EXPECT_EQ(
      error_of(
          "zero_optimization: {stage: 3, offload_optimizer: {device: 'nvme'}}"),
      "config:2:51 (zero_optimization.offload_optimizer.device): nvme needs a "
      "folder to write to; set zero_optimization.offload_optimizer.nvme_path");
}

TEST(Keys, APartOfTheStatesRestsInHostMemoryBesideADisk) {
  const auto error = [](const std::string& keys) {
    return error_of(
        "zero_optimization: {stage: 1, offload_optimizer: {device: 'nvme', "
        "nvme_path: '/x', cpu_ratio: 0.6" +
        keys + "}}");
  };
  const auto expect_said = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_said(
      error(", ratio: 0.5, update_on: 'gpu'"),
      "0.6 in host memory is more than the 0.5 that leave the GPU");
  expect_said(error(""), "states in several places are updated on the GPU");
  expect_said(
      error_of(
          "zero_optimization: {stage: 1, offload_optimizer: {device: 'cpu', "
          "cpu_ratio: 0.6, update_on: 'gpu'}}"),
      "set device to nvme, or use ratio alone");
}

TEST(Keys, Curricula) {
  EXPECT_NO_THROW(Config::load(
      {.json =
           R"({"train_batch_size": 8, "curriculum_learning": {"enabled": true,
        "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 1024,
        "schedule_type": "fixed_linear", "schedule_config":
        {"total_curriculum_step": 100, "difficulty_step": 8}}})"}));
  EXPECT_EQ(
      error_of("curriculum_learning: {enabled: true, min_difficulty: 8}"),
      "config:2:23 (curriculum_learning.enabled): a curriculum needs "
      "max_difficulty; set curriculum_learning.max_difficulty");
}

TEST(Keys, TheFlopsProfilerTurnsOnTheBreakdown) {
  EXPECT_TRUE(resolved("flops_profiler: {enabled: true}")
                  .deepspeed.logging.wall_clock_breakdown);
}

} // namespace
} // namespace cairn::config::keys_test
