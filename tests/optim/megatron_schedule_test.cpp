#include <cairn/base/error.h>
#include <cairn/optim/megatron_schedule.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "optim/golden_file.h"

namespace cairn::optim::megatron_schedule_test {
namespace {

using nlohmann::json;

config::Flags flags_of(const json& args) {
  static const std::map<std::string, LrDecayStyle> styles{
      {"constant", LrDecayStyle::constant},
      {"linear", LrDecayStyle::linear},
      {"cosine", LrDecayStyle::cosine},
      {"inverse-square-root", LrDecayStyle::inverse_square_root},
      {"WSD", LrDecayStyle::wsd}};
  static const std::map<std::string, WsdDecayStyle> wsd_styles{
      {"exponential", WsdDecayStyle::exponential},
      {"linear", WsdDecayStyle::linear},
      {"cosine", WsdDecayStyle::cosine},
      {"minus_sqrt", WsdDecayStyle::minus_sqrt}};
  static const std::map<std::string, WeightDecayStyle> weight_styles{
      {"constant", WeightDecayStyle::constant},
      {"linear", WeightDecayStyle::linear},
      {"cosine", WeightDecayStyle::cosine}};
  const auto optional = [&](const char* key, auto& value) {
    if (const json given = args.value(key, json()); !given.is_null()) {
      value = given.get<
          typename std::remove_reference_t<decltype(value)>::value_type>();
    }
  };
  config::Flags flags;
  optional("lr", flags.learning_rate.lr);
  flags.learning_rate.min_lr = args.at("min_lr");
  flags.learning_rate.warmup_init = args.at("lr_warmup_init");
  flags.learning_rate.warmup_iters = args.at("lr_warmup_iters");
  flags.learning_rate.warmup_samples = args.at("lr_warmup_samples");
  optional("lr_warmup_fraction", flags.learning_rate.warmup_fraction);
  optional("lr_decay_iters", flags.learning_rate.decay_iters);
  optional("lr_decay_samples", flags.learning_rate.decay_samples);
  optional("lr_wsd_decay_iters", flags.learning_rate.wsd_decay_iters);
  optional("lr_wsd_decay_samples", flags.learning_rate.wsd_decay_samples);
  flags.learning_rate.decay_style = styles.at(args.at("lr_decay_style"));
  flags.learning_rate.wsd_decay_style =
      wsd_styles.at(args.at("lr_wsd_decay_style"));
  flags.regularization.weight_decay_incr_style =
      weight_styles.at(args.at("weight_decay_incr_style"));
  optional("start_weight_decay", flags.regularization.start_weight_decay);
  optional("end_weight_decay", flags.regularization.end_weight_decay);
  optional("train_iters", flags.training.train_iters);
  optional("train_samples", flags.training.train_samples);
  return flags;
}

MegatronScheduleOptions options_of(const json& test) {
  const json& args = test.at("args");
  return megatron_schedule_options(
      flags_of(args),
      args.at("global_batch_size"));
}

void expect_derived(
    const MegatronScheduleOptions& options,
    const json& derived) {
  EXPECT_EQ(
      options.warmup_samples,
      derived.at("lr_warmup_steps").get<double>());
  EXPECT_EQ(
      options.decay_samples,
      derived.at("lr_decay_steps").get<std::int64_t>());
  EXPECT_EQ(
      options.weight_decay_samples,
      derived.at("wd_incr_steps").get<std::int64_t>());
  const json& wsd = derived.at("wsd_decay_steps");
  EXPECT_EQ(options.wsd_decay_samples.has_value(), !wsd.is_null());
  if (!wsd.is_null()) {
    EXPECT_EQ(options.wsd_decay_samples, wsd.get<std::int64_t>());
  }
}

void expect_close(double value, double expected) {
  EXPECT_LE(std::abs(value - expected), 1e-12 * std::abs(expected) + 1e-18);
}

TEST(MegatronSchedule, EqualsItsGoldenValues) {
  const std::vector<MegatronGroup> groups{{}, {.weight_decay_multiplier = 0}};
  int compared = 0;
  for (const json& test : golden_file("schedules/megatron_lr.json")) {
    SCOPED_TRACE(test.at("args").dump());
    const MegatronScheduleOptions options = options_of(test);
    expect_derived(options, test.at("scheduler"));
    if (test.contains("error")) {
      EXPECT_THROW(megatron_schedule(options, groups), ConfigError);
      continue;
    }
    const auto schedule = megatron_schedule(options, groups);
    const std::int64_t batch = test["args"].at("global_batch_size");
    for (std::size_t k = 0; k < test.at("lr").size(); ++k) {
      const auto patches = schedule->at(static_cast<std::int64_t>(k) * batch);
      ASSERT_EQ(patches.size(), 2U);
      expect_close(patches[0].lr.value(), test["lr"][k]);
      expect_close(patches[1].lr.value(), test["lr"][k]);
      expect_close(patches[0].weight_decay.value(), test["weight_decay"][k]);
      EXPECT_EQ(patches[1].weight_decay.value(), 0);
      ++compared;
    }
  }
  EXPECT_GT(compared, 900);
}

TEST(MegatronSchedule, LengthsMayBeTokens) {
  config::Flags flags;
  EXPECT_THROW(megatron_schedule_options(flags, 8), ConfigError); // no rate
  flags.learning_rate.lr = 1;
  EXPECT_THROW(megatron_schedule_options(flags, 8), ConfigError); // no length
  flags.training.train_tokens = 10000;
  flags.learning_rate.warmup_tokens = 1000;
  EXPECT_THROW(megatron_schedule_options(flags, 8), ConfigError); // tokens of?
  flags.data.seq_length = 10;
  const auto options = megatron_schedule_options(flags, 8);
  EXPECT_EQ(options.decay_samples, 1000);
  EXPECT_EQ(options.warmup_samples, 100);
  EXPECT_EQ(options.end_weight_decay, 0.01);
}

TEST(MegatronSchedule, GroupsMayHaveTheirOwnRange) {
  const auto schedule = megatron_schedule(
      {.max_lr = 1, .decay_samples = 100, .decay_style = LrDecayStyle::linear},
      {{}, {.max_lr = 4.0, .min_lr = 2.0}});
  EXPECT_EQ(schedule->at(50)[0].lr, 0.5);
  EXPECT_EQ(schedule->at(50)[1].lr, 3.0);
  EXPECT_EQ(schedule->at(1000)[1].lr, 2.0);
}

TEST(MegatronSchedule, RefusesWhatCannotBe) {
  const MegatronScheduleOptions good{
      .max_lr = 1,
      .min_lr = 0.1,
      .decay_samples = 100};
  EXPECT_NO_THROW(megatron_schedule(good, {}));
  const auto refused = [&](auto change) {
    MegatronScheduleOptions options = good;
    change(options);
    EXPECT_THROW(megatron_schedule(options, {}), ConfigError);
  };
  refused([](auto& options) { options.min_lr = 2; });
  refused([](auto& options) { options.min_lr = -1; });
  refused([](auto& options) { options.init_lr = 2; });
  refused([](auto& options) { options.decay_samples = 0; });
  refused([](auto& options) { options.warmup_samples = 100; });
  refused([](auto& options) { options.start_weight_decay = 1; });
  refused([](auto& options) {
    options.weight_decay_style = WeightDecayStyle::linear;
  });
  refused([](auto& options) {
    options.decay_style = LrDecayStyle::wsd;
    options.wsd_decay_samples = 0;
  });
}

} // namespace
} // namespace cairn::optim::megatron_schedule_test
