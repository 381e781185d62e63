#pragma once

#include <cairn/pipeline/schedule.h>

#include <cstddef>
#include <vector>

namespace cairn::pipeline {

/// How long the passes of one micro batch through all chunks of a stage take,
/// in any unit. A backward that is not split takes `backward` and `weights`.
struct PassCosts {
  double forward = 1;
  double backward = 1; ///< for the gradients of the inputs
  double weights = 1;  ///< for those of the weights
  double message = 0;  ///< from one stage to the next
};

struct TimedPass {
  Pass pass{};
  double begin = 0;
  double end = 0;
};

/// When each pass of a schedule runs, if every stage goes through its own in
/// their order, each as soon as what it needs is there.
struct Timeline {
  std::vector<std::vector<TimedPass>> stages;
  double length = 0; ///< until the last pass of all ends

  double busy(std::size_t stage) const;
  /// The share of the whole time in which a stage waits.
  double bubble(std::size_t stage) const;
};

/// Throws ConfigError if passes wait for each other, or a cost is no number
/// from 0 on.
Timeline timeline(const Schedule& schedule, const PassCosts& costs = {});

/// What a schedule takes, by stage.
struct ScheduleCost {
  double length = 0;
  std::vector<double> bubble; ///< share of `length`
  /// Most activations kept at once, in those of one micro batch in all chunks
  /// of a stage.
  std::vector<double> live;

  double worst_bubble() const;
  double most_live() const;
};

ScheduleCost cost_of(const Schedule& schedule, const PassCosts& costs = {});

} // namespace cairn::pipeline
