#include "pipeline/internal/timeline.h"

#include "pipeline/pass_of.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cairn::pipeline {
namespace {

using Kind = Pass::Kind;

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
  Clock(const Schedule& schedule, const TimelineOptions& options)
      : schedule_(schedule),
        options_(options),
        stages_(schedule.stages.size()),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batches)),
        next_(stages_),
        free_at_(stages_),
        live_(options.parts.size()),
        most_(stages_) {
    result_.stages.resize(options.keep_passes ? stages_ : 0);
    result_.busy.resize(stages_);
    result_.live.resize(options.parts.size());
    for (auto& ends : ends_) {
      ends.assign(options.parts.size() * micro_batches_, not_yet);
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

  double cost_of_pass(Kind kind, const PartCosts& part) const {
    return kind == Kind::forward    ? part.forward
        : kind == Kind::weights     ? part.weights
        : schedule_.splits_backward ? part.backward
                                    : part.backward + part.weights;
  }

  double& end_of(Kind kind, std::size_t part, const Instruction& each) {
    return ends_[static_cast<std::size_t>(kind)]
                [part * micro_batches_ +
                 static_cast<std::size_t>(each.micro_batch)];
  }

  /// Time when the inputs of the pass are there; `not_yet` if that is unknown.
  double ready_at(Kind kind, std::size_t part, const Instruction& each) {
    const auto after = [&](Kind needed, std::size_t there) {
      const double end = end_of(needed, there, each);
      const bool sent = there != part && stages_ > 1;
      return end == not_yet || !sent ? end : end + options_.message;
    };
    switch (kind) {
      case Kind::forward:
        return part == 0 ? 0 : after(kind, part - 1);
      case Kind::backward:
        return part + 1 == options_.parts.size() ? after(Kind::forward, part)
                                                 : after(kind, part + 1);
      case Kind::weights:
        return after(Kind::backward, part);
    }
    return not_yet;
  }

  /// Counts the micro batches that the parts of a stage have live.
  void count_live(Kind kind, std::size_t stage, std::size_t part) {
    const Kind frees =
        schedule_.splits_backward ? Kind::weights : Kind::backward;
    if (kind == frees) {
      --live_[part];
    }
    if (kind != Kind::forward) {
      return;
    }
    ++live_[part];
    int sum = 0;
    for (std::size_t each = stage; each < live_.size(); each += stages_) {
      sum += live_[each];
    }
    if (sum > most_[stage]) {
      most_[stage] = sum;
      for (std::size_t each = stage; each < live_.size(); each += stages_) {
        result_.live[each] = live_[each];
      }
    }
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
      const double cost = cost_of_pass(*kind, options_.parts[part]);
      const double begin = std::max(ready, free_at_[stage]);
      const double end = begin + cost;
      end_of(*kind, part, each) = end;
      free_at_[stage] = end;
      result_.busy[stage] += cost;
      count_live(*kind, stage, part);
      if (options_.keep_passes) {
        result_.stages[stage].push_back(
            {{*kind, each.micro_batch, each.chunk}, begin, end});
      }
    }
    ++next_[stage];
    return true;
  }

  const Schedule& schedule_;
  const TimelineOptions& options_;
  std::size_t stages_;
  std::size_t micro_batches_;
  std::vector<std::size_t> next_; ///< next instruction of each stage
  std::vector<double> free_at_;
  std::vector<int> live_; ///< by part
  std::vector<int> most_; ///< live in all parts of a stage, so far
  /// End of each pass, by kind, part of the model and micro batch.
  std::vector<double> ends_[3];
  Timeline result_;
};

std::size_t parts_of(const Schedule& schedule) {
  return schedule.stages.size() * static_cast<std::size_t>(schedule.chunks);
}

} // namespace

double Timeline::bubble(std::size_t stage) const {
  return length > 0 ? 1 - busy.at(stage) / length : 0;
}

Timeline timeline(const Schedule& schedule, const TimelineOptions& options) {
  if (options.parts.size() != parts_of(schedule)) {
    throw UsageError(
        {.what = "a timeline needs the costs of every part",
         .where = fmt::format("schedule {}", schedule.name),
         .values = fmt::format(
             "{} costs, {} parts",
             options.parts.size(),
             parts_of(schedule))});
  }
  check_cost(options.message, "message");
  for (const PartCosts& part : options.parts) {
    check_cost(part.forward, "forward");
    check_cost(part.backward, "backward");
    check_cost(part.weights, "weights");
  }
  return Clock(schedule, options).run();
}

Timeline timeline(const Schedule& schedule, const PassCosts& costs) {
  const double chunks = schedule.chunks;
  return timeline(
      schedule,
      {.parts = std::vector<PartCosts>(
           parts_of(schedule),
           {.forward = costs.forward / chunks,
            .backward = costs.backward / chunks,
            .weights = costs.weights / chunks}),
       .message = costs.message});
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
  const std::size_t stages = schedule.stages.size();
  for (std::size_t stage = 0; stage < stages; ++stage) {
    cost.bubble.push_back(times.bubble(stage));
    int live = 0;
    for (std::size_t part = stage; part < times.live.size(); part += stages) {
      live += times.live[part];
    }
    cost.live.push_back(static_cast<double>(live) / schedule.chunks);
  }
  return cost;
}

} // namespace cairn::pipeline
