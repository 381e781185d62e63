#include "monitor/measures/module_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

// Work by module, and the report of it.

namespace cairn::monitor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<TracedEvent> two_passes() {
  std::vector<TracedEvent> events;
  std::uint64_t id = 0;
  for (const std::uint64_t at : {0, 10000}) {
    events.push_back(
        {.id = ++id,
         .name = forward_scope,
         .thread = 1,
         .begin = at,
         .end = at + 1000});
    events.push_back(
        {.id = ++id,
         .name = "nn.Module: blocks.0",
         .thread = 1,
         .begin = at + 100,
         .end = at + 900});
    events.push_back(
        {.id = ++id,
         .name = "aten::addmm",
         .thread = 1,
         .begin = at + 200,
         .end = at + 500,
         .sequence = static_cast<std::int64_t>(at),
         .flops = 40,
         .owner = "blocks.0.up"});
    events.push_back(
        {.id = ++id,
         .name = "aten::add",
         .thread = 1,
         .begin = at + 500,
         .end = at + 600,
         .sequence = static_cast<std::int64_t>(at) + 1,
         .flops = 6});
    // Another thread runs backward; there it computes the product again.
    events.push_back(
        {.id = ++id,
         .name = "AddmmBackward",
         .thread = 2,
         .begin = at + 2000,
         .end = at + 3000,
         .sequence = static_cast<std::int64_t>(at),
         .forward_thread = 1});
    events.push_back(
        {.id = ++id,
         .name = "aten::mm",
         .thread = 2,
         .begin = at + 2100,
         .end = at + 2900,
         .flops = 80});
    events.push_back( // of the optimizer
        {.id = ++id,
         .name = "aten::mm",
         .thread = 1,
         .begin = at + 4000,
         .end = at + 5000,
         .flops = 1000});
  }
  return events;
}

TEST(ModuleWork, IsTheMeanOfPassesAndThatOfAllParts) {
  ModuleProfile modules;
  add_work(two_passes(), 2, modules);
  const ModuleWork& up = modules.at("blocks.0.up");
  EXPECT_EQ(up.forward_macs, 20U);
  EXPECT_EQ(up.forward_flops, 40U);
  EXPECT_EQ(up.backward_flops, 80U);
  EXPECT_NEAR(up.forward_seconds, 300e-9, 1e-12);
  EXPECT_NEAR(up.backward_seconds, 1000e-9, 1e-12);
  const ModuleWork& block = modules.at("blocks.0");
  EXPECT_EQ(block.forward_flops, 46U);
  EXPECT_EQ(block.forward_macs, 20U) << "an addition alone is none";
  EXPECT_NEAR(block.forward_seconds, 800e-9, 1e-12);
  const ModuleWork& model = modules.at("");
  EXPECT_EQ(model.forward_flops, 46U) << "nor is the optimizer's product";
  EXPECT_EQ(model.backward_flops, 80U);
  EXPECT_NEAR(model.forward_seconds, 1000e-9, 1e-12);
}

TEST(ModuleWork, TimesAreThoseOfKernelsWhereThereAreAny) {
  std::vector<TracedEvent> events = two_passes();
  events[2].device_time = 5000;
  ModuleProfile modules;
  add_work(events, 1, modules);
  EXPECT_NEAR(modules.at("blocks.0.up").forward_seconds, 5000e-9, 1e-12);
  EXPECT_EQ(modules.at("").backward_seconds, 0);
}

TEST(ModuleWork, GradientsThatForwardComputesAreBackwards) {
  std::vector<TracedEvent> events = two_passes();
  events.push_back(
      {.id = 100,
       .name = "gradients in forward",
       .thread = 1,
       .begin = 600,
       .end = 800});
  events.push_back(
      {.id = 101,
       .name = "aten::mm",
       .thread = 1,
       .begin = 650,
       .end = 750,
       .flops = 4000});
  // Such gradients of an evaluation are of no pass.
  events.push_back(
      {.id = 102,
       .name = "gradients in forward",
       .thread = 1,
       .begin = 5000,
       .end = 6000,
       .flops = 1000});
  ModuleProfile modules;
  add_work(events, 2, modules);
  EXPECT_EQ(modules.at("").forward_macs, 20U);
  EXPECT_EQ(modules.at("").forward_flops, 46U);
  EXPECT_EQ(modules.at("").backward_flops, 80U + 2000);
  EXPECT_EQ(modules.at("blocks.0").backward_flops, 80U + 2000);
}

TEST(ModuleWork, TrialsAreNoticed) {
  std::vector<TracedEvent> events = two_passes();
  EXPECT_FALSE(has_trials(events));
  events.push_back({.id = 100, .name = "cairn::trial"});
  EXPECT_TRUE(has_trials(events));
}

TEST(ModuleWork, ModulesAreInTheOrderOfTheirNumbers) {
  ModuleProfile modules;
  for (const char* name : {"b.10.x", "b.9", "b", "", "b.10", "a"}) {
    modules[name];
  }
  std::vector<std::string> names;
  for (const auto& [name, work] : modules) {
    names.push_back(name);
  }
  EXPECT_THAT(names, ElementsAre("", "a", "b", "b.9", "b.10", "b.10.x"));
}

TEST(FlopsReport, HasTheFiguresThatFollowFromTimes) {
  ModuleProfile modules;
  modules[""] = {
      .parameters = 1'500'000,
      .forward_macs = 2'000'000'000,
      .forward_flops = 4'000'000'000,
      .forward_seconds = 0.5};
  modules["blocks.0"] = modules[""];
  const ProfiledStep step{
      .step = 5,
      .passes = 2,
      .batch = 8,
      .forward_seconds = 0.5,
      .backward_seconds = 1,
      .update_seconds = 1};
  const std::string text =
      flops_report(modules, step, {.recompute_fwd_factor = 1.0});
  const auto row = [](const std::string& what, const std::string& value) {
    return HasSubstr(what + std::string(63 - what.size(), ' ') + value + "\n");
  };
  EXPECT_THAT(
      text,
      AllOf(
          row("params of this rank:", "1.50 M"),
          row("fwd MACs of this rank:", "2.00 GMACs"),
          row("fwd FLOPS = fwd flops / fwd latency:", "8.00 GFLOPS"),
          row("bwd FLOPS = 3 * fwd flops / bwd latency:", "12.00 GFLOPS"),
          row("fwd+bwd FLOPS = 4 * fwd flops / (fwd+bwd latency):",
              "10.67 GFLOPS"),
          row("iter latency (2 x fwd and bwd, step):", "4.00 s"),
          row("samples/second:", "2.00")));
  EXPECT_THAT(
      flops_report(modules, step, {.module_depth = 1}),
      AllOf(HasSubstr("depth 1"), Not(HasSubstr("depth 2"))));
}

} // namespace
} // namespace cairn::monitor
