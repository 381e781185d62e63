#include "config/internal/check_kind.h"
#include "config/internal/describe_model.h"
#include "pretrain/internal/pretrain.h"
#include "pretrain/internal/stages.h"
#include "pretrain/plan/check_curriculum.h"
#include "pretrain/plan/flags_schedule.h"
#include "pretrain/plan/run_plan.h"
#include "support/error_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::pretrain::plan_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

using Words = std::vector<std::string>;

config::Config config_of(
    const Words& more,
    std::int64_t world = 1,
    const std::string& json = "{}") {
  Words flags{"--num-layers", "2", "--hidden-size", "64"};
  for (const char* word :
       {"--num-attention-heads",
        "4",
        "--seq-length",
        "16",
        "--max-position-embeddings",
        "16",
        "--micro-batch-size",
        "2",
        "--global-batch-size",
        "8",
        "--lr",
        "1e-3"}) {
    flags.emplace_back(word);
  }
  flags.insert(flags.end(), more.begin(), more.end());
  return config::Config::load(
      {.json = json, .flags = flags, .world_size = world});
}

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

TEST(RunPlan, CountsIterationsSamplesAndTokens) {
  const RunPlan by_iterations = plan_run(config_of({"--train-iters", "10"}));
  EXPECT_EQ(by_iterations.iterations, 10);
  EXPECT_EQ(by_iterations.samples, 80);
  const RunPlan by_samples = plan_run(config_of({"--train-samples", "81"}));
  EXPECT_EQ(by_samples.iterations, 11); // whole batches
  EXPECT_EQ(by_samples.samples, 88);
  const RunPlan by_tokens = plan_run(config_of({"--train-tokens", "1265"}));
  EXPECT_EQ(by_tokens.iterations, 10); // 80 sequences of 16
}

TEST(RunPlan, FollowsTheRampUp) {
  const RunPlan plan = plan_run(config_of(
      {"--train-samples", "40", "--rampup-batch-size", "2", "2", "12"}));
  // 2 up to sample 4, then 4, then 6 up to 12, then 8
  std::vector<std::int64_t> sizes;
  for (std::int64_t consumed = 0; consumed < plan.samples;) {
    sizes.push_back(plan.batch_size.at(consumed).running);
    consumed += sizes.back();
  }
  EXPECT_EQ(static_cast<std::int64_t>(sizes.size()), plan.iterations);
  EXPECT_EQ(sizes.front(), 2);
  EXPECT_EQ(sizes.back(), 8);
}

/// Samples of 4 tokens, then 8, 12 and, from step 10 on, all 16.
constexpr const char* four_lengths =
    R"({"curriculum_learning": {"enabled": true, "min_difficulty": 4,
        "max_difficulty": 16, "schedule_type": "fixed_discrete",
        "schedule_config": {"difficulty": [4, 8, 12, 16],
          "max_step": [3, 6, 9]}}})";

TEST(RunPlan, CountsTokensOfACurriculum) {
  const RunPlan plan =
      plan_run(config_of({"--train-iters", "12"}, 1, four_lengths));
  EXPECT_EQ(plan.samples, 96);
  EXPECT_EQ(plan.length_at(6), 8);
  EXPECT_EQ(plan.length_at(7), 12);
  EXPECT_EQ(plan.tokens.at(8), 32);
  EXPECT_EQ(plan.tokens.at(3 * 8 + 8), 3 * 8 * 4 + 8 * 8);
  EXPECT_EQ(plan.tokens.at(96), 3 * 8 * (4 + 8 + 12 + 16));
  // The same tokens take more steps, and the last one is whole.
  const RunPlan by_tokens =
      plan_run(config_of({"--train-tokens", "577"}, 1, four_lengths));
  EXPECT_EQ(by_tokens.iterations, 10);
  EXPECT_EQ(by_tokens.tokens.at(by_tokens.samples), 576 + 8 * 16);
  // The count goes on from another place, whatever came before.
  const TokenCount behind =
      count_tokens(plan, {.steps = 5, .samples = 100, .tokens = 1000});
  EXPECT_EQ(behind.at(100), 1000);
  EXPECT_EQ(behind.at(108), 1064);
  EXPECT_EQ(behind.at(116), 1064 + 8 * 12);
}

TEST(RunPlan, LearningRatesFollowTheTokensOfACurriculum) {
  const auto rates = [](const Words& lengths) {
    const config::Config config = config_of(lengths, 1, four_lengths);
    const RunPlan plan = plan_run(config);
    const auto schedule = flags_schedule(config, plan);
    std::vector<double> result;
    for (std::int64_t step = 0; step <= 12; step += 3) {
      result.push_back(schedule->at(step * 8)[0].lr.value());
    }
    return result;
  };
  const auto near = [](double value) { return DoubleNear(value, 1e-12); };
  // After 0, 96, 288, 576 and 960 tokens of 960
  EXPECT_THAT(
      rates({"--train-tokens", "960"}),
      ElementsAre(near(1e-3), near(9e-4), near(7e-4), near(4e-4), near(0)));
  EXPECT_THAT(
      rates({"--train-iters", "12", "--lr-decay-tokens", "960"}),
      ElementsAre(near(1e-3), near(9e-4), near(7e-4), near(4e-4), near(0)));
  EXPECT_THAT(
      rates({"--train-iters", "12", "--lr-warmup-tokens", "192"}),
      ElementsAre(near(0), near(5e-4), near(8.75e-4), near(5e-4), near(0)));
  EXPECT_THAT(
      rates({"--train-iters", "12"}),
      ElementsAre(near(1e-3), near(7.5e-4), near(5e-4), near(2.5e-4), near(0)));
  EXPECT_THAT(
      error_text([&] {
        rates(
            {"--train-tokens",
             "960",
             "--lr-decay-style",
             "WSD",
             "--lr-wsd-decay-samples",
             "8"});
      }),
      HasSubstr("the decay of WSD is not counted in tokens"));
}

TEST(RunPlan, RefusesACurriculumThatItCannotFollow) {
  const auto check = [](Kind kind,
                        const Words& flags,
                        int ranks = 1,
                        const std::string& json = four_lengths) {
    const config::Config config = config_of(flags, ranks, json);
    config::check_kind(kind, config);
    check_curriculum(config, plan_run(config));
  };
  const Words iterations{"--train-iters", "12"};
  check(Kind::gpt, iterations);
  EXPECT_THAT(
      error_text([&] { check(Kind::bert, iterations); }),
      HasSubstr("(curriculum_learning): only GPT's samples can be cut"));
  EXPECT_THAT(
      error_text([&] {
        check(Kind::gpt, {"--train-iters", "12", "--seq-length", "12"});
      }),
      HasSubstr("above --seq-length (16 of 12 tokens)"));
  const Words shared{
      "--train-iters",
      "12",
      "--tensor-model-parallel-size",
      "4",
      "--sequence-parallel"};
  check(Kind::gpt, shared, 4);
  std::string odd = four_lengths;
  odd.replace(odd.find("[4, 8"), 5, "[4, 6");
  EXPECT_THAT(
      error_text([&] { check(Kind::gpt, shared, 4, odd); }),
      HasSubstr("--sequence-parallel: a length of the curriculum does not "
                "divide over the ranks (6 tokens, 4 parts)"));
}

/// A layer of two computes 4 tokens, 8 from step 4 on, 12, and 16 from 10 on.
constexpr const char* one_layer_drops =
    R"({"data_efficiency": {"enabled": true, "data_routing": {"enabled": true,
        "random_ltd": {"enabled": true, "total_layer_num": 2,
        "random_ltd_layer_id": [1], "random_ltd_schedule": {"min_value": 4,
        "max_value": 20, "schedule_config": {"require_steps": 12,
        "seq_per_step": 4}}}}}})";

TEST(RunPlan, CountsTheTokensOfAnAverageLayer) {
  const Words flags{"--train-iters", "12", "--random-ltd"};
  const config::Config config =
      config_of(flags + Words{"--lr-decay-tokens", "1248"}, 1, one_layer_drops);
  const RunPlan plan = plan_run(config);
  check_curriculum(config, plan);
  EXPECT_EQ(plan.kept_at(3), 4);
  EXPECT_EQ(plan.kept_at(4), 8);
  EXPECT_EQ(plan.kept_at(12), 16);
  EXPECT_EQ(plan.kept_at(100), 16); // a sample has no more
  EXPECT_EQ(plan.length_at(3), 10);
  EXPECT_EQ(plan.length_at(10), 16);
  EXPECT_EQ(plan.tokens.at(96), 3 * 8 * (10 + 12 + 14 + 16));
  EXPECT_THAT(
      flags_schedule(config, plan)->at(48)[0].lr.value(),
      DoubleNear(1e-3 * (1248 - 3 * 8 * (10 + 12)) / 1248, 1e-12));
  const TokenCount behind =
      count_tokens(plan, {.steps = 8, .samples = 64, .tokens = 1000});
  EXPECT_EQ(behind.at(80), 1000 + 8 * (14 + 16));
  EXPECT_THAT(
      error_text([&] { config::check_kind(Kind::bert, config); }),
      HasSubstr("--random-ltd: tokens are dropped in GPT's layers only "
                "(pretrain bert)"));
}

TEST(RunPlan, NeedsSamplesForEveryEvaluation) {
  const RunPlan plan = plan_run(config_of(
      {"--train-iters", "10", "--eval-interval", "4", "--eval-iters", "3"}));
  EXPECT_THAT(
      plan.samples_needed(),
      ElementsAre(Optional(80), Optional(3 * 3 * 8), Optional(3 * 8)));
}

TEST(RunPlan, AsksForALength) {
  EXPECT_THAT(
      error_text([] { plan_run(config_of({})); }),
      HasSubstr("--train-iters"));
}

TEST(RunPlan, RefusesExpertsThatCannotBe) {
  const auto describe = [](const Words& flags, Kind kind = Kind::gpt) {
    const config::Config config = config_of(flags);
    config::check_kind(kind, config);
    return config::describe_model(kind, config.flags, 100);
  };
  const auto error = [&](const Words& flags) {
    return error_text<ConfigError>([&] { describe(flags); });
  };
  for (const Kind kind : {Kind::bert, Kind::t5}) {
    EXPECT_TRUE(describe({"--num-experts", "4"}, kind).experts);
  }
  EXPECT_THAT(
      error({"--num-experts", "4", "--expert-interval", "3"}),
      HasSubstr("none of 2 layers would have experts"));
  EXPECT_THAT(
      error({"--num-experts", "4", "4"}),
      HasSubstr("--num-experts: 2 numbers, but 1 of 2 layers"));
  EXPECT_THAT(
      error(
          {"--num-experts",
           "4",
           "--topk",
           "2",
           "--moe-noisy-gate-policy",
           "RSample"}),
      HasSubstr("--topk 1 only"));
  EXPECT_THAT(
      error({"--num-experts", "4", "--topk", "5"}),
      HasSubstr("a token cannot go to 5 of 4 experts"));
}

/// Throws unless two ranks can share sequences so.
void check_in_context(Kind kind, const Words& more) {
  const auto config =
      config_of(Words{"--context-parallel-size", "2"} + more, 4);
  config::check_kind(kind, config);
}

std::string refused_in_context(Kind kind, const Words& more) {
  return error_text([&] { check_in_context(kind, more); });
}

TEST(Context, RefusesWhatRanksThatShareSequencesCannotDo) {
  const Words still{"--attention-dropout", "0"};
  const Words exchange{"--cp-comm-type", "a2a"};
  check_in_context(Kind::gpt, still);
  check_in_context(Kind::gpt, exchange);
  check_in_context(
      Kind::gpt,
      exchange + Words{"--tensor-model-parallel-size", "2"});
  check_in_context(
      Kind::gpt,
      {"--attention-dropout", "0.1", "--reset-attention-mask"});
  EXPECT_THAT(
      refused_in_context(Kind::bert, still),
      HasSubstr("left-to-right models only"));
  EXPECT_THAT(
      refused_in_context(Kind::t5, still),
      HasSubstr("left-to-right models only"));
  EXPECT_THAT(
      refused_in_context(
          Kind::gpt,
          still + Words{"--position-embedding-type", "relative"}),
      HasSubstr("relative positions"));
  // Two ranks may share one head of keys and values, but not three heads.
  const auto heads_of_keys = [&](const char* count) {
    return exchange +
        Words{
            "--num-attention-heads",
            "6",
            "--hidden-size",
            "48",
            "--group-query-attention",
            "--num-key-value-heads",
            count};
  };
  check_in_context(Kind::gpt, heads_of_keys("1"));
  check_in_context(Kind::gpt, heads_of_keys("2"));
  EXPECT_THAT(
      refused_in_context(Kind::gpt, heads_of_keys("3")),
      HasSubstr("--num-key-value-heads: 3 heads cannot be exchanged among "
                "context 2 x tensor 1 ranks"));
  // Contradictions of the flags alone are reported by `cairn config`.
  EXPECT_THAT(
      error_text([&] {
        config_of(
            {"--context-parallel-size",
             "8",
             "--tensor-model-parallel-size",
             "4",
             "--sequence-parallel"},
            32);
      }),
      HasSubstr("16 is not divisible by --tensor-model-parallel-size x "
                "--context-parallel-size 32"));
}

/// Throws unless a model of two layers (T5: two and one) can be cut so.
void cut(Kind kind, int stages, const std::string& partition = "") {
  config::Config config = config_of({"--decoder-num-layers", "1"});
  config.flags.distributed.pipeline_parallel = stages;
  if (!partition.empty()) {
    config.given.emplace("pipeline.partition", config::Place{});
    config.deepspeed.pipeline.partition = partition;
  }
  const auto model = config::describe_model(kind, config.flags, 512);
  check_stages(model, config, pretraining_inputs(model, config.flags));
}

TEST(Stages, HaveABlockEach) {
  cut(Kind::bert, 2);
  cut(Kind::t5, 2);
  cut(Kind::t5, 3);
  EXPECT_THAT(
      error_text([] { cut(Kind::gpt, 4); }),
      HasSubstr("at most as many stages as the model layers (4; 2 layers); "
                "use at most 2 stages"));
  EXPECT_THAT(
      error_text([] { cut(Kind::t5, 4); }),
      HasSubstr("(4; 2 encoder and 1 decoder layers); use at most 3 stages"));
}

TEST(Stages, AreCutAsTheConfigurationSays) {
  for (const Kind kind : {Kind::gpt, Kind::bert, Kind::t5}) {
    for (const char* partition :
         {"uniform", "parameters", "best", "type:block|norm"}) {
      cut(kind, 2, partition);
    }
    EXPECT_THAT(
        error_text([&] { cut(kind, 2, "type:convolution"); }),
        HasSubstr("no layer's type matches"));
  }
  // The last stage would have only the head, which is the first one's
  // embedding.
  EXPECT_THAT(
      error_text([] { cut(Kind::gpt, 2, "type:norm|head"); }),
      HasSubstr("stage 1 of 2 would have layers 5 to 5 of 6"));
}

} // namespace
} // namespace cairn::pretrain::plan_test
