#include "pipeline/internal/timeline.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace cairn::pipeline {
namespace {

using Kind = Pass::Kind;

std::optional<Kind> pass_of(Op op) {
  switch (op) {
    case Op::forward:
      return Kind::forward;
    case Op::backward:
      return Kind::backward;
    case Op::weight_gradients:
      return Kind::weights;
    default:
      return std::nullopt;
  }
}

void check_cost(double cost, const char* what) {
  if (!(cost >= 0) || !std::isfinite(cost)) {
    throw ConfigError(
        {.what = "the cost of a pass is a number from 0 on",
         .where = what,
         .values = fmt::format("{}", cost)});
  }
}

class Clock {
 public:
  Clock(const Schedule& schedule, const PassCosts& costs)
      : schedule_(schedule),
        costs_(costs),
        stages_(schedule.stages.size()),
        next_(stages_),
        free_at_(stages_) {
    result_.stages.resize(stages_);
    const std::size_t parts =
        stages_ * static_cast<std::size_t>(schedule.chunks);
    for (auto& ends : ends_) {
      ends.assign(
          parts,
          std::vector<double>(
              static_cast<std::size_t>(schedule.micro_batches),
              not_yet));
    }
  }

  Timeline run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t stage = 0; stage < stages_; ++stage) {
        while (advance(stage)) {
          moved = true;
        }
      }
    }
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      if (next_[stage] < schedule_.stages[stage].size()) {
        throw UsageError(
            {.what = "the passes of a schedule wait for each other",
             .where =
                 fmt::format("schedule {}, stage {}", schedule_.name, stage),
             .remedy = "make schedules with with_messages()"});
      }
      result_.length = std::max(result_.length, free_at_[stage]);
    }
    return std::move(result_);
  }

 private:
  static constexpr double not_yet = -1;

  double cost_of_pass(Kind kind) const {
    const double whole = kind == Kind::forward ? costs_.forward
        : kind == Kind::weights                ? costs_.weights
        : schedule_.splits_backward            ? costs_.backward
                                    : costs_.backward + costs_.weights;
    return whole / schedule_.chunks;
  }

  double& end_of(Kind kind, std::size_t part, const Instruction& each) {
    return ends_[static_cast<std::size_t>(kind)][part]
                [static_cast<std::size_t>(each.micro_batch)];
  }

  /// Time when the inputs of the pass are there; `not_yet` if that is unknown.
  double ready_at(Kind kind, std::size_t part, const Instruction& each) {
    const auto after = [&](Kind needed, std::size_t there, double message) {
      const double end = end_of(needed, there, each);
      return end == not_yet ? end : end + message;
    };
    switch (kind) {
      case Kind::forward:
        return part == 0 ? 0 : after(kind, part - 1, costs_.message);
      case Kind::backward:
        return part + 1 == ends_[0].size()
            ? after(Kind::forward, part, 0)
            : after(kind, part + 1, costs_.message);
      case Kind::weights:
        return after(Kind::backward, part, 0);
    }
    return not_yet;
  }

  /// Runs the stage's next instruction. False at the end, or if its next pass
  /// waits for one that was not timed yet.
  bool advance(std::size_t stage) {
    const auto& program = schedule_.stages[stage];
    if (next_[stage] == program.size()) {
      return false;
    }
    const Instruction& each = program[next_[stage]];
    if (const auto kind = pass_of(each.op)) {
      const std::size_t part =
          static_cast<std::size_t>(each.chunk) * stages_ + stage;
      const double ready = ready_at(*kind, part, each);
      if (ready == not_yet) {
        return false;
      }
      const double begin = std::max(ready, free_at_[stage]);
      const double end = begin + cost_of_pass(*kind);
      result_.stages[stage].push_back(
          {{*kind, each.micro_batch, each.chunk}, begin, end});
      end_of(*kind, part, each) = end;
      free_at_[stage] = end;
    }
    ++next_[stage];
    return true;
  }

  const Schedule& schedule_;
  const PassCosts& costs_;
  std::size_t stages_;
  std::vector<std::size_t> next_; ///< next instruction of each stage
  std::vector<double> free_at_;
  /// End of each pass, by kind, part of the model and micro batch.
  std::vector<std::vector<double>> ends_[3];
  Timeline result_;
};

} // namespace

double Timeline::busy(std::size_t stage) const {
  double sum = 0;
  for (const TimedPass& each : stages.at(stage)) {
    sum += each.end - each.begin;
  }
  return sum;
}

double Timeline::bubble(std::size_t stage) const {
  return length > 0 ? 1 - busy(stage) / length : 0;
}

Timeline timeline(const Schedule& schedule, const PassCosts& costs) {
  check_cost(costs.forward, "forward");
  check_cost(costs.backward, "backward");
  check_cost(costs.weights, "weights");
  check_cost(costs.message, "message");
  return Clock(schedule, costs).run();
}

double ScheduleCost::worst_bubble() const {
  return bubble.empty() ? 0 : std::ranges::max(bubble);
}

double ScheduleCost::most_live() const {
  return live.empty() ? 0 : std::ranges::max(live);
}

ScheduleCost cost_of(const Schedule& schedule, const PassCosts& costs) {
  const Timeline times = timeline(schedule, costs);
  ScheduleCost cost{.length = times.length};
  const Kind frees = schedule.splits_backward ? Kind::weights : Kind::backward;
  for (std::size_t stage = 0; stage < times.stages.size(); ++stage) {
    cost.bubble.push_back(times.bubble(stage));
    int live = 0;
    int most = 0;
    for (const TimedPass& each : times.stages[stage]) {
      if (each.pass.kind == Kind::forward) {
        most = std::max(most, ++live);
      } else if (each.pass.kind == frees) {
        --live;
      }
    }
    cost.live.push_back(static_cast<double>(most) / schedule.chunks);
  }
  return cost;
}

} // namespace cairn::pipeline
