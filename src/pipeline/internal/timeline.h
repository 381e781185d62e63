#pragma once

#include <cairn/pipeline/schedule.h>

#include <cstddef>
#include <vector>

namespace cairn::pipeline {

/// Time that the passes of one micro batch through a part of the model take, in
/// any unit. A backward that is not split takes `backward` and `weights`.
struct PartCosts {
  double forward = 1;
  double backward = 1; ///< for the gradients of the inputs
  double weights = 1;  ///< for the gradients of the weights
};

/// The same for a model of equal parts: through all chunks of a stage.
struct PassCosts {
  double forward = 1;
  double backward = 1;
  double weights = 1;
  double message = 0; ///< from one stage to the next
};

struct TimedPass {
  Pass pass{};
  double begin = 0;
  double end = 0;
};

/// Times of a schedule, if every stage goes through its passes in order, each
/// as soon as its inputs are there.
struct Timeline {
  std::vector<std::vector<TimedPass>> stages; ///< empty unless passes are kept
  double length = 0;                          ///< end of the last pass of all
  std::vector<double> busy;                   ///< time of each stage's passes
  /// Most micro batches that each part has live when its stage has the most, by
  /// part.
  std::vector<int> live;

  /// Share of the whole time in which a stage waits.
  double bubble(std::size_t stage) const;
};

/// What the passes of a schedule cost, and what to keep of them.
struct TimelineOptions {
  /// The costs of part c S + s of the model, which stage s of S runs as its
  /// chunk c.
  std::vector<PartCosts> parts;
  double message = 0; ///< from one stage to the next
  bool keep_passes = true;
};

/// Times a schedule. Throws UsageError if passes wait for each other, and
/// ConfigError if a cost is not a number from 0 on.
Timeline timeline(const Schedule& schedule, const TimelineOptions& options);
Timeline timeline(const Schedule& schedule, const PassCosts& costs = {});

/// The cost of a schedule for each stage.
struct ScheduleCost {
  double length = 0;
  std::vector<double> bubble; ///< share of `length`
  /// Most activations kept at once, in units of one micro batch's activations
  /// in all chunks of a stage.
  std::vector<double> live;

  double worst_bubble() const;
  double most_live() const;
};

ScheduleCost cost_of(const Schedule& schedule, const PassCosts& costs = {});

} // namespace cairn::pipeline
