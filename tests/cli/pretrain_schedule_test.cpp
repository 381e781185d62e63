#include "cli/pretrain_fixture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

// Batches, lengths and tokens that change as a run of `cairn pretrain` goes on.

namespace cairn::cli::pretrain_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Pretrain, RampsTheBatchUpAndCountsInSamples) {
  Words words = gpt(1);
  const auto at = std::ranges::find(words, "--train-iters");
  words.erase(at, at + 2);
  const auto decay = std::ranges::find(words, "--lr-decay-iters");
  words.erase(decay, decay + 2);
  succeed(cairn(
      words +
      Words{
          "--train-samples",
          "40",
          "--rampup-batch-size",
          "2",
          "2",
          "12",
          "--log-interval",
          "1",
          "--log-jsonl",
          path("ramp.jsonl")}));
  const auto sizes = values("ramp.jsonl", "global batch size");
  EXPECT_EQ(sizes.front(), 2);
  EXPECT_EQ(sizes.back(), 8);
  EXPECT_TRUE(std::ranges::is_sorted(sizes));
}

TEST_F(Pretrain, FollowsACurriculumOnAnyRanks) {
  const std::string settings =
      written("curriculum.json", R"({"curriculum_learning": {"enabled": true,
      "curriculum_type": "seqlen", "min_difficulty": 8, "max_difficulty": 32,
      "schedule_type": "fixed_linear", "schedule_config":
      {"total_curriculum_step": 6, "difficulty_step": 8}}})");
  const auto words = [&](const std::string& log, const Words& more) {
    return without_dropout(gpt(8)) +
        Words{
            "--deepspeed_config",
            settings,
            "--log-interval",
            "1",
            "--log-jsonl",
            path(log)} +
        more;
  };
  const Result whole = run(cairn(words("lengths.jsonl", {})));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(
      whole.out + whole.err,
      AllOf(
          HasSubstr("| curriculum seqlen:    24 | actual seqlen:    24 |"),
          Not(HasSubstr("curriculum_learning is set"))));
  EXPECT_THAT(
      values("lengths.jsonl", "curriculum seqlen"),
      ::testing::ElementsAre(8, 16, 16, 24, 24, 32, 32, 32));
  EXPECT_EQ(values("lengths.jsonl", "consumed tokens").back(), 8 * 184);

  const Words saved = saving("lengths");
  succeed(launched(words(
      "parts_of_lengths.jsonl",
      saved +
          Words{
              "--pipeline-model-parallel-size",
              "2",
              "--exit-interval",
              "3"})));
  succeed(launched(words(
      "parts_of_lengths.jsonl",
      saved +
          Words{
              "--tensor-model-parallel-size",
              "2",
              "--sequence-parallel",
              "--exit-interval",
              "5"})));
  succeed(launched(
      words("parts_of_lengths.jsonl", saved + Words{"--zero-stage", "3"})));
  for (const char* name : {"curriculum seqlen", "consumed tokens"}) {
    EXPECT_EQ(
        values("lengths.jsonl", name),
        values("parts_of_lengths.jsonl", name));
  }
  expect_near(
      values("lengths.jsonl", "lm loss"),
      values("parts_of_lengths.jsonl", "lm loss"));
  // The checkpoint knows how many tokens it has seen.
  const Result without = run(cairn(
      without_dropout(gpt(9)) + saved +
      Words{"--log-interval", "1", "--log-jsonl", path("behind.jsonl")}));
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(
      values("behind.jsonl", "consumed tokens"),
      ::testing::ElementsAre(8 * (184 + 32)));
  Words tokens = without_dropout(gpt(9)) + saved;
  const auto at = std::ranges::find(tokens, "--train-iters");
  *at = "--train-tokens";
  *(at + 1) = "5000";
  const auto decay = std::ranges::find(tokens, "--lr-decay-iters");
  tokens.erase(decay, decay + 2);
  EXPECT_THAT(
      run(cairn(tokens)).err,
      HasSubstr(
          "consumed tokens: the checkpoint was trained with another "
          "--seq-length, curriculum or batch, so lengths in tokens do "
          "not hold (1728 after 72 samples; by these flags it would be 2304)"));
}

TEST_F(Pretrain, DropsTokensOfLayersOnAnyRanks) {
  const auto settings = [](const std::string& least) {
    return written(
        "random_ltd" + least + ".json",
        R"({"data_efficiency": {
        "enabled": true, "data_routing": {"enabled": true, "random_ltd": {
        "enabled": true, "total_layer_num": 2, "random_ltd_layer_id": [1],
        "random_ltd_schedule": {"max_value": 32, "schedule_type":
        "fixed_linear", "schedule_config": {"require_steps": 6,
        "seq_per_step": 8}, "min_value": )" +
            least + "}}}}}");
  };
  const auto words = [&](const std::string& log, const Words& more) {
    return without_dropout(gpt(8)) +
        Words{"--log-interval", "1", "--log-jsonl", path(log)} + more;
  };
  const Words dropping{"--random-ltd", "--deepspeed_config", settings("8")};
  const Result whole = run(cairn(words("dropping.jsonl", dropping)));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(
      whole.out + whole.err,
      AllOf(
          HasSubstr("| random ltd reserved length:    24 | actual seqlen:    "
                    "28 |"),
          Not(HasSubstr("does not act on it"))));
  EXPECT_THAT(
      values("dropping.jsonl", "random ltd reserved length"),
      ::testing::ElementsAre(8, 8, 16, 16, 24, 24, 32, 32));
  EXPECT_EQ(values("dropping.jsonl", "consumed tokens").back(), 8 * 208);

  const Words saved = dropping + saving("dropping");
  succeed(launched(words(
      "parts_of_dropping.jsonl",
      saved +
          Words{"--tensor-model-parallel-size", "2", "--exit-interval", "3"})));
  succeed(launched(
      words("parts_of_dropping.jsonl", saved + Words{"--zero-stage", "3"})));
  for (const char* name : {"random ltd reserved length", "consumed tokens"}) {
    EXPECT_EQ(
        values("dropping.jsonl", name),
        values("parts_of_dropping.jsonl", name));
  }
  for (const char* name : {"lm loss", "validation lm loss"}) {
    expect_near(
        values("dropping.jsonl", name),
        values("parts_of_dropping.jsonl", name));
  }

  EXPECT_THAT(
      run(cairn(words("none.jsonl", {"--deepspeed_config", settings("8")})))
          .err,
      HasSubstr("asks for --random-ltd"));
  EXPECT_THAT(
      run(cairn(gpt(4) + dropping + Words{"--dry-run"})).out,
      HasSubstr("random-LTD: 8 to 32 tokens over "));
  // Nothing changes once all tokens are left; before, something does.
  succeed(cairn(words("plain.jsonl", {})));
  succeed(cairn(words(
      "all_left.jsonl",
      {"--random-ltd", "--deepspeed_config", settings("32")})));
  const auto plain = values("plain.jsonl", "lm loss");
  EXPECT_EQ(plain, values("all_left.jsonl", "lm loss"));
  EXPECT_GT(
      std::abs(plain.front() - values("dropping.jsonl", "lm loss").front()),
      1e-4);
}

TEST_F(Pretrain, KeepsAnElasticBatchWhenRanksComeAndGo) {
  const std::string settings =
      written("elastic.json", R"({"elasticity": {"enabled": true,
      "max_train_batch_size": 8, "micro_batch_sizes": [1, 2, 4], "version": 0.1}})");
  const Words both = without_dropout(gpt(8)) +
      Words{"--deepspeed_config", settings, "--log-interval", "1"};
  EXPECT_THAT(
      run(cairn(both)).err,
      HasSubstr("elasticity chooses the batch, but batch keys are given"));
  Words words = both;
  words.erase(
      std::ranges::find(words, "--micro-batch-size"),
      std::ranges::find(words, "--train-iters"));
  const auto logged = [&](const std::string& name) {
    return words + Words{"--log-jsonl", path(name + ".jsonl")};
  };
  succeed(launched(logged("steady")));
  const Words going = logged("elastic") + saving("elastic");
  succeed(cairn(
      Words{"launch", "--max-restarts", "1", "--num_gpus", "2"} + going +
      Words{"--exit-interval", "3"}));
  const Result alone = run(launched(going, 1));
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(
      alone.out + alone.err,
      HasSubstr("effective batch 8 = 4 per rank x 2 accumulation x 1"));
  for (const char* name :
       {"consumed samples", "global batch size", "learning rate"}) {
    EXPECT_EQ(values("steady.jsonl", name), values("elastic.jsonl", name));
  }
  expect_near(
      values("steady.jsonl", "lm loss"),
      values("elastic.jsonl", "lm loss"));
  EXPECT_THAT(
      run(launched(words, 3)).err,
      HasSubstr("world size 3 cannot run this elastic batch (batch 8); use one "
                "of 1, 2, 4, 8"));
}

} // namespace
} // namespace cairn::cli::pretrain_test
