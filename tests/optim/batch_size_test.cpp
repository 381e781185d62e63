#include <cairn/base/error.h>
#include <cairn/optim/rampup_batch_size.h>
#include <gtest/gtest.h>

#include "optim/golden_file.h"
#include "optim/step_batch_size.h"
#include "support/fuzz.h"

namespace cairn::optim::batch_size_test {
namespace {

using nlohmann::json;

BatchShare share_of(const json& test) {
  return {test.at("micro_batch_size"), test.at("data_parallel_size")};
}

TEST(RampupBatchSize, EqualsItsGoldenValues) {
  int compared = 0;
  for (const json& test : golden_file("schedules/megatron_rampup.json")) {
    SCOPED_TRACE(test.dump());
    std::optional<Rampup> rampup;
    if (const json& given = test.at("rampup_batch_size"); !given.is_null()) {
      rampup = Rampup{given[0], given[1], given[2]};
    }
    const auto make = [&] {
      return RampupBatchSize(
          rampup,
          test.at("global_batch_size"),
          share_of(test),
          test.at("decrease_batch_size_if_needed"));
    };
    if (test.contains("error")) {
      ASSERT_TRUE(test.at("trace").empty());
      EXPECT_THROW(make().at(0), ConfigError);
      continue;
    }
    const RampupBatchSize schedule = make();
    for (const json& row : test.at("trace")) {
      EXPECT_EQ(schedule.at(row[0]), (BatchSize{row[1], row[2], row[3]}))
          << row[0];
      ++compared;
    }
  }
  EXPECT_GT(compared, 500);
}

TEST(StepBatchSize, EqualsItsGoldenValues) {
  int compared = 0;
  for (const json& test : golden_file("schedules/megatron_step_batch.json")) {
    SCOPED_TRACE(test.dump());
    std::optional<std::int64_t> length;
    if (!test.at("seq_length").is_null()) {
      length = test["seq_length"].get<std::int64_t>();
    }
    const std::string text = test.at("step_batch_size_schedule");
    if (!test.contains("parsed")) {
      EXPECT_THROW(StepBatchSize(text, share_of(test), length), ConfigError);
      continue;
    }
    const StepBatchSize schedule(text, share_of(test), length);
    std::vector<StepBatchSize::Step> parsed;
    for (const json& step : test["parsed"]) {
      parsed.push_back({step[0], step[1]});
    }
    EXPECT_EQ(schedule.steps(), parsed);
    std::int64_t next = 0;
    for (const json& row : test.at("trace")) {
      const BatchSize size = schedule.at(row[0]);
      EXPECT_EQ(size, (BatchSize{row[1], row[1], row[2]}));
      next = row[0].get<std::int64_t>() + size.running;
      ++compared;
    }
    if (test.contains("error")) {
      EXPECT_THROW(schedule.at(next), ConfigError);
    }
  }
  EXPECT_GT(compared, 200);
}

TEST(StepBatchSize, SaysWhatIsWrong) {
  const auto message = [](std::string_view text) {
    try {
      StepBatchSize(text, {});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(message("").find("first threshold"), std::string::npos);
  EXPECT_NE(message("0:8 0:9").find("sample 0"), std::string::npos);
  EXPECT_NE(message("0:0").find("positive"), std::string::npos);
  EXPECT_NE(message("0:x").find("\"x\""), std::string::npos);
  EXPECT_NE(message("0:1e300").find("1e300"), std::string::npos);
  EXPECT_NE(message("0:nan").find("nan"), std::string::npos);
  EXPECT_NE(message("0:-5").find("-5"), std::string::npos);
  EXPECT_THROW(StepBatchSize("0:8", {.micro_batch_size = 0}), ConfigError);
  EXPECT_THROW(StepBatchSize("0:8", {}, 0), ConfigError);
}

TEST(StepBatchSize, SurvivesDamagedText) {
  const int accepted = testing::fuzz(
      {.seeds = {"0:8 100:16 300:32", "0:768,250B:1536 0.5T:3072"},
       .pieces = {":", "0:", " ", ",", "K", "1e18", "nan", "-", "."}},
      [](const std::string& text) { StepBatchSize(text, {}, 64).at(1000); });
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 9900);
}

} // namespace
} // namespace cairn::optim::batch_size_test
