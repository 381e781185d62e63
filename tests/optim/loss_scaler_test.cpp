#include <cairn/base/error.h>
#include <cairn/optim/loss_scaler.h>
#include <gtest/gtest.h>

#include "optim/golden_file.h"

#include <vector>

namespace cairn::optim::loss_scaler_test {
namespace {

using nlohmann::json;

config::Fp16Config config_of(const json& section) {
  config::Fp16Config config;
  config.enabled = section.at("enabled");
  config.initial_scale_power = section.at("initial_scale_power");
  config.loss_scale_window = section.at("loss_scale_window");
  config.hysteresis = section.at("hysteresis");
  config.consecutive_hysteresis = section.at("consecutive_hysteresis");
  config.min_loss_scale = section.at("min_loss_scale");
  return config;
}

/// Follows one case; a step that the peer ends with must report the minimum.
void follow(LossScaler scaler, const json& test, bool raises) {
  const json& scales = test.at("scale_after");
  const std::size_t error_at = test.value("error_at", scales.size());
  ASSERT_EQ(error_at, scales.size());
  for (std::size_t k = 0; k < scales.size(); ++k) {
    const double before = scaler.scale();
    const bool overflow = test.at("overflow")[k];
    const ScaleChange change = scaler.update(overflow);
    EXPECT_EQ(scaler.scale(), scales[k].get<double>()) << "step " << k;
    EXPECT_EQ(
        change == ScaleChange::raised,
        scaler.scale() > before && !overflow);
    if (raises) {
      EXPECT_NE(change, ScaleChange::at_minimum) << "step " << k;
    }
  }
  if (test.contains("error_at")) {
    const double before = scaler.scale();
    EXPECT_EQ(scaler.update(true), ScaleChange::at_minimum);
    EXPECT_EQ(scaler.scale(), before);
  }
}

TEST(LossScaler, FollowsDeepSpeedsZero) {
  const json cases = golden_file("loss_scaler/deepspeed_dynamic.json");
  EXPECT_EQ(cases.size(), 54U);
  for (const json& test : cases) {
    SCOPED_TRACE(test.at("fp16").dump());
    const auto scaler = LossScaler::from(config_of(test["fp16"]), 2);
    EXPECT_TRUE(std::holds_alternative<ZeroScale>(scaler.state()));
    EXPECT_EQ(scaler.scale(), test.at("initial_scale").get<double>());
    follow(scaler, test, true);
  }
}

TEST(LossScaler, FollowsDeepSpeedsStageZero) {
  for (const json& test : golden_file("loss_scaler/deepspeed_fused.json")) {
    SCOPED_TRACE(test.at("fp16").dump());
    const auto scaler = LossScaler::from(config_of(test["fp16"]), 0);
    EXPECT_TRUE(std::holds_alternative<FusedScale>(scaler.state()));
    follow(scaler, test, false);
  }
}

TEST(LossScaler, FollowsMegatron) {
  for (const json& test : golden_file("loss_scaler/megatron_dynamic.json")) {
    const json& params = test.at("params");
    SCOPED_TRACE(params.dump());
    const std::int64_t hysteresis = params.at("hysteresis");
    const LossScaler scaler(MegatronScale{
        .growth_factor = params.at("growth_factor"),
        .backoff_factor = params.at("backoff_factor"),
        .growth_interval = params.at("growth_interval"),
        .full_hysteresis = hysteresis,
        .minimum = params.at("min_scale"),
        .scale = params.at("initial_scale"),
        .hysteresis = hysteresis});
    follow(scaler, test, false);
  }
}

TEST(LossScaler, StaticStays) {
  config::Fp16Config config;
  EXPECT_EQ(LossScaler::from(config, 1).scale(), 1);
  config.enabled = true;
  config.loss_scale = 128;
  LossScaler scaler = LossScaler::from(config, 1);
  EXPECT_FALSE(scaler.dynamic());
  EXPECT_EQ(scaler.update(true), ScaleChange::none);
  EXPECT_EQ(scaler.scale(), 128);
}

TEST(LossScaler, AmpsIsApexs) {
  const config::AmpConfig apex;
  EXPECT_EQ(LossScaler::from(apex, false), LossScaler()) << "bf16 needs none";
  LossScaler scaler = LossScaler::from(apex, true);
  EXPECT_EQ(scaler.scale(), 65536);
  EXPECT_EQ(scaler.update(true), ScaleChange::lowered);
  for (int step = 1; step < 2000; ++step) {
    ASSERT_EQ(scaler.update(false), ScaleChange::none);
  }
  EXPECT_EQ(scaler.scale(), 32768);
  EXPECT_EQ(scaler.update(false), ScaleChange::raised);
  EXPECT_EQ(scaler.scale(), 65536);

  EXPECT_EQ(
      LossScaler::from(config::AmpConfig{.loss_scale = {.fixed = 128}}, true),
      LossScaler(StaticScale{.scale = 128}));
}

TEST(LossScaler, AmpsHasTwoEnds) {
  const config::AmpConfig narrow{.min_loss_scale = 3, .max_loss_scale = 10};
  LossScaler scaler = LossScaler::from(narrow, true);
  EXPECT_EQ(scaler.scale(), 10);
  EXPECT_EQ(scaler.update(true), ScaleChange::lowered);
  EXPECT_EQ(scaler.update(true), ScaleChange::lowered);
  EXPECT_EQ(scaler.scale(), 3);
  EXPECT_EQ(scaler.update(true), ScaleChange::at_minimum);
  std::vector<double> raised;
  for (int step = 0; step < 8000; ++step) {
    if (scaler.update(false) == ScaleChange::raised) {
      raised.push_back(scaler.scale());
    }
  }
  EXPECT_EQ(raised, (std::vector<double>{6, 10}));
}

TEST(LossScaler, GoesOnFromItsState) {
  LossScaler scaler(ZeroScale{.window = 3, .scale = 64});
  for (const bool overflow : {false, true, false, false}) {
    scaler.update(overflow);
  }
  LossScaler other(scaler.state());
  EXPECT_EQ(other, scaler);
  for (const bool overflow : {true, false, true, false, false, false, false}) {
    EXPECT_EQ(other.update(overflow), scaler.update(overflow));
    EXPECT_EQ(other, scaler);
  }
}

TEST(LossScaler, AtTheMinimumItMayHold) {
  LossScaler scaler(FusedScale{.window = 2, .scale = 1});
  EXPECT_EQ(scaler.update(true), ScaleChange::at_minimum);
  EXPECT_EQ(scaler.update(false), ScaleChange::none);
  EXPECT_EQ(scaler.update(false), ScaleChange::none);
  EXPECT_EQ(scaler.update(false), ScaleChange::raised);
}

TEST(LossScaler, RefusesAWindowOfNothing) {
  config::Fp16Config config;
  config.enabled = true;
  config.loss_scale_window = 0;
  EXPECT_THROW(LossScaler::from(config, 1), ConfigError);
}

} // namespace
} // namespace cairn::optim::loss_scaler_test
