#include "config/internal/actors.h"
#include "config/internal/flag.h"
#include "config/keys/key.h"
#include "support/error_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::config::actors_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

Config with(const std::string& json, std::vector<std::string> flags = {}) {
  return Config::resolve(
      {.json = "{train_batch_size: 8, " + json + "}",
       .flags = std::move(flags)});
}

TEST(Actors, ColumnsOfTheTables) {
  EXPECT_TRUE(acts_on(Actor::pretrain, "--lr"));
  EXPECT_TRUE(acts_on(Actor::pretrain, "--batch_size")) << "an old name";
  EXPECT_FALSE(acts_on(Actor::generate, "--lr"));
  EXPECT_TRUE(acts_on(Actor::probe_train, "--lr"));
  EXPECT_FALSE(acts_on(Actor::probe, "--lr"));
  EXPECT_TRUE(acts_on(Actor::generate | Actor::pretrain, "--lr"));
  EXPECT_FALSE(acts_on(Actor::pretrain, "--no-such-flag"));
  EXPECT_TRUE(acts_on(Actor::engine, "zero_optimization.stage"));
  EXPECT_TRUE(acts_on(Actor::engine, "zero_optimization")) << "a part of it";
  EXPECT_FALSE(acts_on(Actor::engine, "pipeline.seed_layers"));
}

TEST(Actors, NobodyActsOnWhatIsNotHonoured) {
  for (const Key& key : key_table()) {
    if (key.support.kind != Support::Kind::honoured) {
      EXPECT_TRUE(key.actors.empty()) << key.name;
    }
  }
}

TEST(Actors, Names) {
  EXPECT_EQ(names_of({}), "");
  EXPECT_EQ(names_of(Actor::pretrain | Actor::generate), "pretrain, generate");
  EXPECT_EQ(names_of(Actor::probe | Actor::probe_train), "probe");
  EXPECT_EQ(names_of(Actor::probe_train), "probe --train");
}

TEST(Actors, RefuseFlagsThatACommandDoesNotActOn) {
  const Config config = with("", {"--lr", "1", "--port", "1"});
  EXPECT_EQ(
      error_text([&] { refuse_unused_flags(config, Actor::pretrain); }),
      "pretrain does not act on these flags (--port); leave them out");
  EXPECT_EQ(
      error_text([&] { refuse_unused_flags(config, Actor::generate); }),
      "generate does not act on these flags (--lr, --port); leave them out");
  EXPECT_EQ(
      error_text([&] {
        refuse_unused_flags(config, Actor::generate, Actor::pretrain);
      }),
      "generate does not act on these flags (--port); leave them out");
}

TEST(Actors, KeysThatWereGivenForNothing) {
  // Keys that are refused or have no effect get a message of their own.
  const Config config =
      with("gradient_clipping: 1, sparse_gradients: false,"
           "zero_optimization: {stage: 1, contiguous_gradients: true,"
           "  cpu_offload: true, round_robin_gradients: true},"
           "pipeline: {seed_layers: true}, timers: {throughput:"
           "  {synchronized: false}}");
  EXPECT_THAT(
      unused_keys(config, Actor::engine),
      ElementsAre(
          "pipeline",
          "pipeline.seed_layers",
          "zero_optimization.round_robin_gradients"));
}

/// Flags and keys that a text names.
std::vector<std::string> settings_in(std::string_view text) {
  std::string spaced(text);
  std::ranges::replace_if(
      spaced,
      [](char c) {
        return std::string_view("`;,:()").find(c) != std::string_view::npos;
      },
      ' ');
  std::vector<std::string> found;
  for (const std::string_view word : words_in(spaced)) {
    if (word.starts_with("--") || word.find('.') != word.npos) {
      found.emplace_back(word);
    }
  }
  return found;
}

// A reason must not send anyone to a setting that does nothing.
TEST(Actors, SomebodyActsOnSettingsThatReasonsName) {
  const std::set<std::string> of_other_commands{"--max-restarts", "--num_gpus"};
  std::vector<std::string_view> reasons;
  for (const RefusedFlags& row : refused_flags()) {
    reasons.push_back(row.reason);
  }
  for (const TakenFlags& row : taken_flags()) {
    reasons.push_back(row.reason);
  }
  for (const Flag& flag : flag_table()) {
    reasons.push_back(flag.support.reason);
  }
  for (const Key& key : key_table()) {
    reasons.push_back(key.support.reason);
  }
  int named = 0;
  for (const std::string_view reason : reasons) {
    for (const std::string& setting : settings_in(reason)) {
      if (setting != "Module.apply" && !of_other_commands.contains(setting)) {
        EXPECT_TRUE(acts_on(Actor::engine | Actor::pretrain, setting))
            << setting << " in: " << reason;
        ++named;
      }
    }
  }
  EXPECT_GT(named, 50);
}

TEST(Actors, SectionsThatACommandActsOnAsAWhole) {
  EXPECT_THAT(
      keys_acted_on_by(Actor::pretrain),
      IsSupersetOf(
          {"tensorboard",
           "csv_monitor",
           "data_efficiency",
           "pipeline.partition",
           "pipeline.stages"}));
  EXPECT_THAT(
      keys_acted_on_by(Actor::probe),
      ElementsAre("pipeline.stages", "pipeline.partition"));
}

} // namespace
} // namespace cairn::config::actors_test
