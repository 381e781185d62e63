#pragma once

#include "pretrain/parity_training.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <string>

// The curves that any layout of ranks has to follow.

namespace cairn::pretrain::parity {

constexpr int chance_zeros = 3; ///< gradients that happen to cancel out

/// The curve of one process on the CPU; computed in a child, since tests fork.
inline Curve reference(const std::string& model) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    Training training({.name = "one process", .model = model}, world);
    std::ofstream out(folder.path() / "curve");
    out.precision(17);
    for (int i = 0; i < steps; ++i) {
      const Point point = training.step();
      out << point.losses.size() << ' ';
      for (const double loss : point.losses) {
        out << loss << ' ';
      }
      out << point.norm << ' ' << point.zeros << ' ' << point.weights << ' '
          << point.variance.squares << ' ' << point.variance.absolutes << ' '
          << point.variance.roots << ' ' << point.variance.largest << '\n';
    }
  });
  Curve curve(steps);
  std::ifstream in(folder.path() / "curve");
  for (Point& point : curve) {
    std::size_t losses = 0;
    in >> losses;
    point.losses.resize(losses);
    for (double& loss : point.losses) {
      in >> loss;
    }
    in >> point.norm >> point.zeros >> point.weights >>
        point.variance.squares >> point.variance.absolutes >>
        point.variance.roots >> point.variance.largest;
  }
  EXPECT_TRUE(in);
  const bool of_sentences =
      model.starts_with("bert") && !model.starts_with("bert_of_words");
  EXPECT_EQ(
      curve.front().losses.size(),
      1U + of_sentences + has_experts(model));
  EXPECT_GT(std::abs(curve.back().losses[0] - curve.front().losses[0]), 1e-3);
  if (model == "gpt" || model == "gpt_of_5") {
    EXPECT_NEAR(curve.front().zeros, unused_positions * hidden, chance_zeros);
  }
  return curve;
}

inline const Curve& wanted(const std::string& model) {
  static std::map<std::string, Curve> curves;
  const auto known = curves.find(model);
  return known != curves.end()
      ? known->second
      : curves.emplace(model, reference(model)).first->second;
}

} // namespace cairn::pretrain::parity
