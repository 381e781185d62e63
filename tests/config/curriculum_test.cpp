#include "config/internal/curriculum_length.h"
#include "config/keys/key.h"
#include "support/error_text.h"

#include <cairn/config/config.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace cairn::config::curriculum_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CurriculumConfig read(const std::string& section) {
  return Config::load({.json = "{train_batch_size: 8, curriculum_learning: " +
                           section + "}"})
      .deepspeed.curriculum;
}

// Lengths that DeepSpeed gives; see tests/golden/schedules/README.md.
TEST(Curriculum, IsDeepSpeeds) {
  std::ifstream file(
      std::string(CAIRN_GOLDEN_DIR) + "/schedules/deepspeed_curriculum.json");
  const Json cases = Json::parse(file);
  ASSERT_EQ(cases.size(), 67U);
  for (const Json& each : cases) {
    const CurriculumConfig curriculum = read(each["config"].dump());
    Json lengths = Json::array();
    for (std::int64_t step = 1; step <= each["steps"]; ++step) {
      const std::int64_t length = curriculum_length(curriculum, step);
      if (lengths.empty() || lengths.back()[1] != length) {
        lengths.push_back({step, length});
      }
    }
    EXPECT_EQ(lengths, each["lengths"]) << each["config"].dump();
  }
}

TEST(Curriculum, StaysAtItsEnd) {
  const CurriculumConfig curriculum = read(
      "{enabled: true, min_difficulty: 8, max_difficulty: 1020, schedule_type: "
      "\"fixed_root\", schedule_config: {total_curriculum_step: 1, "
      "difficulty_step: 8, root_degree: 1}}");
  EXPECT_EQ(curriculum_length(curriculum, 1), 1016);
  EXPECT_EQ(curriculum_length(curriculum, std::int64_t{1} << 62), 1020);
  EXPECT_EQ(
      describe(curriculum),
      "1016 to 1020 tokens over 1 steps (fixed_root)");
}

TEST(Curriculum, RefusesWhatHasNoLengths) {
  const auto error_of = [](const std::string& rest) {
    return error_text([&] {
      read("{enabled: true, min_difficulty: 6, max_difficulty: 64, " + rest);
    });
  };
  EXPECT_THAT(
      error_of("schedule_type: \"fixed_linear\", schedule_config: "
               "{total_curriculum_step: 100, difficulty_step: 8}}"),
      HasSubstr("(curriculum_learning.schedule_config.difficulty_step): 6 "
                "tokens, rounded down to a multiple of 8, are none; raise "
                "min_difficulty, or lower difficulty_step"));
  EXPECT_THAT(
      error_of("schedule_type: \"fixed_discrete\", schedule_config: "
               "{difficulty: [8, 16, 64], max_step: [5, 5]}}"),
      HasSubstr("(curriculum_learning.schedule_config.max_step): each step "
                "must be behind the one before"));
  EXPECT_THAT(
      error_of("schedule_type: \"fixed_discrete\", schedule_config: "
               "{difficulty: [64]}}"),
      HasSubstr("set curriculum_learning.schedule_config.max_step"));
  EXPECT_THAT(
      error_of("schedule_type: \"custom\"}"),
      HasSubstr("fixed_linear"));
}

/// A configuration with some of DeepSpeed's words replaced, or further flags.
Config random_ltd(
    const std::string& schedule,
    const std::string& from = "",
    const std::string& to = "",
    const std::vector<std::string>& more = {}) {
  std::vector<std::string> layers(22);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i] = std::to_string(i + 1);
  }
  std::string json = fmt::format(
      R"({{train_batch_size: 8, data_efficiency: {{enabled: true, seed: 7,
      data_sampling: {{enabled: false, num_epochs: 3}}, data_routing: {{
      enabled: true, random_ltd: {{enabled: true, total_layer_num: 24,
      random_ltd_layer_num: 22, random_ltd_layer_id: [{}],
      model_mask_name: "attention_mask", model_type: "decoder",
      hidden_state_order: "seq_batch_dim",
      layer_token_lr_schedule: {{enabled: false, total_layer_tokens: 1}},
      random_ltd_schedule: {}}}}}}}}})",
      fmt::join(layers, ", "),
      schedule);
  if (const auto at = json.find(from); !from.empty()) {
    json.replace(at, from.size(), to);
  }
  std::vector<std::string> flags{"--random-ltd"};
  flags.insert(flags.end(), more.begin(), more.end());
  return Config::load({.json = json, .flags = flags, .world_size = 2});
}

// Numbers that DeepSpeed gives; see tests/golden/schedules/README.md.
TEST(RandomLtd, ItsScheduleIsDeepSpeeds) {
  std::ifstream file(
      std::string(CAIRN_GOLDEN_DIR) + "/schedules/deepspeed_random_ltd.json");
  const Json cases = Json::parse(file);
  ASSERT_EQ(cases.size(), 13U);
  for (const Json& each : cases) {
    const RandomLtdConfig ltd =
        random_ltd(each["schedule"].dump()).deepspeed.random_ltd;
    ASSERT_EQ(ltd.layers.size(), 22U);
    Json kept = Json::array();
    std::int64_t layer_tokens = 0;
    for (std::int64_t step = 0; step < each["steps"]; ++step) {
      const std::int64_t tokens = curriculum_length(ltd.schedule, step);
      layer_tokens += 2 * (tokens * 22 + *ltd.schedule.max_difficulty * 2);
      if (kept.empty() || kept.back()[1] != tokens) {
        kept.push_back({step, tokens});
      }
    }
    EXPECT_EQ(kept, each["kept"]) << each["schedule"].dump();
    EXPECT_EQ(layer_tokens, each["layer_tokens"]);
  }
}

TEST(RandomLtd, RefusesWhatCannotBe) {
  const std::string schedule =
      "{min_value: 8, max_value: 64, schedule_type: \"fixed_linear\", "
      "schedule_config: {require_steps: 10, seq_per_step: 8}}";
  const auto error_of = [&](const std::string& from,
                            const std::string& to,
                            const std::vector<std::string>& more = {}) {
    return error_text([&] { random_ltd(schedule, from, to, more); });
  };
  EXPECT_EQ(random_ltd(schedule).deepspeed.random_ltd.seed, 7);
  EXPECT_THAT(
      error_text([] { Config::load({.flags = {"--random-ltd"}}); }),
      HasSubstr("data_efficiency.data_routing.random_ltd: not enabled in "
                "data_efficiency, data_routing and random_ltd"));
  EXPECT_THAT(
      error_of("enabled: true, seed", "enabled: false, seed"),
      HasSubstr("not enabled in data_efficiency"));
  // Inner settings do not count if the whole is switched off.
  EXPECT_FALSE(Config::load({.json = R"({"train_batch_size": 1,
                   "data_efficiency": {"enabled": false,
                   "data_routing": {"enabled": true,
                   "random_ltd": {"enabled": true}}}})"})
                   .deepspeed.random_ltd.is_on());
  EXPECT_THAT(
      error_of("min_value: 8, ", ""),
      HasSubstr("needs total_layer_num"));
  EXPECT_THAT(error_of("[1,", "[24,"), HasSubstr("one that is not there"));
  EXPECT_THAT(error_of("[1,", "[2,"), HasSubstr("or one twice"));
  EXPECT_THAT(error_of("[1,", "["), HasSubstr("random_ltd_layer_num is not"));
  EXPECT_THAT(error_of("min_value: 8", "min_value: 7"), HasSubstr("no token"));
  EXPECT_THAT(
      error_of("max_value: 64", "max_value: 6"),
      HasSubstr("min_value is above max_value"));
  EXPECT_THAT(
      error_of("fixed_linear", "fixed_root"),
      HasSubstr("random_ltd_schedule.schedule_type"));
  EXPECT_THAT(
      error_of("\"decoder\"", "\"encoder\""),
      HasSubstr("random_ltd.model_type"));
  EXPECT_THAT(
      error_of("{enabled: false, total", "{enabled: true, total"),
      HasSubstr("DeepSpeed has not built it either"));
  EXPECT_THAT(
      error_of("", "", {"--num-layers", "12"}),
      HasSubstr("total_layer_num is not --num-layers"));
  for (const auto& [flag, value] :
       {std::pair{"--sequence-parallel", ""},
        {"--reset-attention-mask", ""},
        {"--position-embedding-type", "relative"},
        {"--context-parallel-size", "2"},
        {"--pipeline-model-parallel-size", "2"},
        {"--num-experts", "4"}}) {
    std::vector<std::string> flags{flag};
    if (*value != '\0') {
      flags.emplace_back(value);
    } else { // more than one rank for a sequence to be parallel on
      flags.insert(flags.end(), {"--tensor-model-parallel-size", "2"});
    }
    EXPECT_THAT(
        error_of("", "", flags),
        AllOf(HasSubstr("not with"), HasSubstr(flag)));
  }
}

} // namespace
} // namespace cairn::config::curriculum_test
