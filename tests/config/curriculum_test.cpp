#include "config/key.h"
#include "support/error_text.h"

#include <cairn/config/config.h>
#include <cairn/config/curriculum_length.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace cairn::config::curriculum_test {
namespace {

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

} // namespace
} // namespace cairn::config::curriculum_test
