#include <cairn/base/error.h>
#include <cairn/optim/deepspeed_schedules.h>
#include <gtest/gtest.h>

#include <cmath>

#include "optim/golden_file.h"

namespace cairn::optim::deepspeed_schedules_test {
namespace {

using nlohmann::json;

config::SchedulerConfig config_of(const json& test) {
  config::SchedulerConfig config;
  config.type = test.at("type").get<std::string>();
  config::SchedulerParams& params = config.params.emplace();
  const auto set = [&](const char* key, auto& option) {
    if (test.at("params").contains(key)) {
      option = test["params"][key]
                   .get<typename std::remove_reference_t<
                       decltype(option)>::value_type>();
    }
  };
#define CAIRN_SET(key) set(#key, params.key)
  CAIRN_SET(warmup_min_lr);
  CAIRN_SET(warmup_max_lr);
  CAIRN_SET(warmup_num_steps);
  CAIRN_SET(warmup_type);
  CAIRN_SET(total_num_steps);
  CAIRN_SET(warmup_min_ratio);
  CAIRN_SET(cos_min_ratio);
  CAIRN_SET(cycle_min_lr);
  CAIRN_SET(cycle_max_lr);
  CAIRN_SET(decay_lr_rate);
  CAIRN_SET(cycle_first_step_size);
  CAIRN_SET(cycle_second_step_size);
  CAIRN_SET(cycle_first_stair_count);
  CAIRN_SET(cycle_second_stair_count);
  CAIRN_SET(decay_step_size);
  CAIRN_SET(cycle_momentum);
  CAIRN_SET(cycle_min_mom);
  CAIRN_SET(cycle_max_mom);
  CAIRN_SET(decay_mom_rate);
  CAIRN_SET(lr_range_test_step_size);
  CAIRN_SET(lr_range_test_step_rate);
  CAIRN_SET(lr_range_test_staircase);
  CAIRN_SET(last_batch_iteration);
#undef CAIRN_SET
  if (const json& low = test["params"].value("lr_range_test_min_lr", json());
      low.is_number()) {
    params.lr_range_test_min_lr = low.get<double>();
  }
  return config;
}

std::unique_ptr<Schedule> schedule_of(const json& test) {
  const auto lrs = test.at("optimizer_lrs").get<std::vector<double>>();
  const json low = test.at("params").value("lr_range_test_min_lr", json());
  if (low.is_array()) { // a value per group: not in the configuration
    return lr_range_test(
        {.min_lr = low.get<std::vector<double>>(),
         .step_size = test["params"].at("lr_range_test_step_size")},
        lrs);
  }
  return make_schedule(config_of(test), lrs);
}

void expect_close(double value, double expected) {
  EXPECT_LE(std::abs(value - expected), 1e-12 * std::abs(expected));
}

TEST(DeepSpeedSchedules, EqualTheirGoldenValues) {
  int compared = 0;
  for (const json& test : golden_file("schedules/deepspeed_lr.json")) {
    SCOPED_TRACE(test["type"].dump() + test["params"].dump());
    if (test.contains("error")) {
      EXPECT_THROW(schedule_of(test), ConfigError);
      continue;
    }
    const auto schedule = schedule_of(test);
    const json& lrs = test.at("lr");
    for (std::size_t step = 0; step < lrs.size(); ++step) {
      const auto patches = schedule->at(static_cast<std::int64_t>(step));
      ASSERT_EQ(patches.size(), lrs[step].size());
      for (std::size_t group = 0; group < patches.size(); ++group) {
        SCOPED_TRACE(step);
        expect_close(patches[group].lr.value(), lrs[step][group]);
        ++compared;
        const bool cycles = test["params"].value("cycle_momentum", true);
        if (test.contains("beta1") && cycles) {
          ASSERT_TRUE(patches[group].betas);
          expect_close((*patches[group].betas)[0], test["beta1"][step][group]);
          EXPECT_EQ((*patches[group].betas)[1], 0.99);
        } else {
          EXPECT_FALSE(patches[group].betas);
        }
      }
    }
  }
  EXPECT_GT(compared, 1500);
}

TEST(DeepSpeedSchedules, ContinueFromAnIteration) {
  WarmupLrOptions options{.max_lr = {0.5}, .warmup = {.steps = 10}};
  const std::vector<double> lrs{0.1};
  const auto whole = warmup_lr(options, lrs);
  options.last_batch_iteration = 4;
  const auto rest = warmup_lr(options, lrs);
  EXPECT_FALSE(rest->at(0)[0].lr); // nothing is set before the first step
  for (int n = 1; n < 10; ++n) {
    EXPECT_EQ(rest->at(n), whole->at(n + 5)) << n;
  }
}

TEST(DeepSpeedSchedules, WarmUpToEachGroupsOwnRate) {
  const std::vector<double> lrs{0.1, 0.2, 0.3};
  const auto patches = warmup_lr({.warmup = {.steps = 2}}, lrs)->at(100);
  ASSERT_EQ(patches.size(), 3U);
  EXPECT_EQ(patches[2].lr, 0.3);
}

TEST(DeepSpeedSchedules, RefuseWhatCannotBe) {
  const std::vector<double> lrs{0.1, 0.2};
  EXPECT_THROW(
      warmup_lr({.min_lr = {0.0, 0.0, 0.0}}, lrs),
      ConfigError);                              // three values, two groups
  EXPECT_THROW(one_cycle({}, lrs), ConfigError); // no learning rates
  EXPECT_THROW(
      make_schedule({.type = "Cosine", .params = {}}, lrs),
      ConfigError);
  EXPECT_THROW(make_schedule({}, lrs), ConfigError);
  try {
    make_schedule({.type = "WarmupDecayLR", .params = {}}, lrs);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.problem().where, "scheduler.params.total_num_steps");
  }
}

TEST(GroupValuesPatch, ChangesOnlyWhatItHas) {
  GroupValues values{.lr = 1, .weight_decay = 2, .eps = 3, .momentum = 4};
  GroupValuesPatch{.lr = 9, .betas = {{0.5, 0.6}}}.apply_to(values);
  EXPECT_EQ(
      values,
      (GroupValues{
          .lr = 9,
          .weight_decay = 2,
          .betas = {0.5, 0.6},
          .eps = 3,
          .momentum = 4}));
}

} // namespace
} // namespace cairn::optim::deepspeed_schedules_test
