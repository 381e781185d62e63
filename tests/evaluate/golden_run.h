#pragma once

#include "evaluate/golden_evaluation.h"
#include "evaluate/internal/zero_shot.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

// Evaluations of the golden model.

namespace cairn::evaluate {

using Words = std::vector<std::string>;

struct Layout {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;

  int ranks() const { return data * tensor * pipeline; }
};

/// The evaluation that these flags describe, before it is run.
inline ZeroShot prepared(const Layout& layout, const Words& more) {
  Words flags{
      "--load",
      golden("model").string(),
      "--micro-batch-size",
      "3",
      "--tensor-model-parallel-size",
      std::to_string(layout.tensor),
      "--pipeline-model-parallel-size",
      std::to_string(layout.pipeline)};
  flags.insert(flags.end(), more.begin(), more.end());
  const auto config =
      config::Config::load({.flags = flags, .world_size = layout.ranks()});
  return ZeroShot(
      config,
      {golden_tokenizer(), models::open_model(golden("model"))},
      Logger({.least = LogLevel::error}));
}

inline nlohmann::json results_of(
    const Layout& layout,
    const Words& more,
    const distributed::World& world) {
  const auto report = prepared(layout, more).run(world);
  return nlohmann::json::parse(report.json).at("results");
}

inline void expect_near(
    const nlohmann::json& results,
    const nlohmann::json& expected,
    const char* name,
    double tolerance) {
  const double value = expected.at(name);
  EXPECT_NEAR(results.at(name).get<double>(), value, tolerance * value) << name;
}

} // namespace cairn::evaluate
