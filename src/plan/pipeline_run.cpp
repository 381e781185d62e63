#include "plan/pipeline_run.h"

#include <cairn/base/error.h>

#include <algorithm>

namespace cairn::plan {
namespace {

using pipeline::Instruction;
using pipeline::Op;

enum Kind { forward, backward, weights, no_pass };

Kind kind_of(Op op) {
  switch (op) {
    case Op::forward:
      return forward;
    case Op::backward:
      return backward;
    case Op::weight_gradients:
      return weights;
    default:
      return no_pass;
  }
}

class Simulation {
 public:
  Simulation(
      const pipeline::Schedule& schedule,
      const std::vector<PartCost>& parts,
      double message,
      bool keep)
      : schedule_(schedule),
        parts_(parts),
        message_(message),
        keep_(keep),
        stages_(schedule.stages.size()),
        micro_batches_(static_cast<std::size_t>(schedule.micro_batches)),
        next_(stages_),
        free_at_(stages_),
        live_(parts.size()),
        most_(stages_) {
    for (auto& ends : ends_) {
      ends.assign(parts.size() * micro_batches_, not_yet);
    }
    result_.busy.resize(stages_);
    result_.live.resize(parts.size());
    result_.stages.resize(keep ? stages_ : 0);
  }

  PipelineRun run() {
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
        throw InternalError(
            {.what = "the passes of a schedule wait for each other",
             .where = schedule_.name});
      }
      result_.length = std::max(result_.length, free_at_[stage]);
    }
    return std::move(result_);
  }

 private:
  static constexpr double not_yet = -1;

  double& end_of(Kind kind, std::size_t part, const Instruction& each) {
    return ends_[kind]
                [part * micro_batches_ +
                 static_cast<std::size_t>(each.micro_batch)];
  }

  double ready_at(Kind kind, std::size_t part, const Instruction& each) {
    const auto after = [&](Kind needed, std::size_t there, bool sent) {
      const double end = end_of(needed, there, each);
      return end == not_yet || !sent ? end : end + message_;
    };
    if (kind == forward) {
      return part == 0 ? 0 : after(forward, part - 1, stages_ > 1);
    }
    if (kind == weights) {
      return after(backward, part, false);
    }
    return part + 1 == parts_.size() ? after(forward, part, false)
                                     : after(backward, part + 1, stages_ > 1);
  }

  double cost_of(Kind kind, const PartCost& cost) const {
    return kind == forward          ? cost.forward
        : kind == weights           ? cost.weights
        : schedule_.splits_backward ? cost.backward - cost.weights
                                    : cost.backward;
  }

  void count_live(Kind kind, std::size_t stage, std::size_t part) {
    const Kind frees = schedule_.splits_backward ? weights : backward;
    if (kind == frees) {
      --live_[part];
    }
    if (kind != forward) {
      return;
    }
    ++live_[part];
    int sum = 0;
    for (std::size_t each = stage; each < parts_.size(); each += stages_) {
      sum += live_[each];
    }
    if (sum > most_[stage]) {
      most_[stage] = sum;
      for (std::size_t each = stage; each < parts_.size(); each += stages_) {
        result_.live[each] = live_[each];
      }
    }
  }

  bool advance(std::size_t stage) {
    const auto& program = schedule_.stages[stage];
    if (next_[stage] == program.size()) {
      return false;
    }
    const Instruction& each = program[next_[stage]];
    const Kind kind = kind_of(each.op);
    if (kind != no_pass) {
      const std::size_t part =
          static_cast<std::size_t>(each.chunk) * stages_ + stage;
      const double ready = ready_at(kind, part, each);
      if (ready == not_yet) {
        return false;
      }
      const double begin = std::max(ready, free_at_[stage]);
      const double cost = cost_of(kind, parts_[part]);
      const double end = begin + cost;
      end_of(kind, part, each) = end;
      free_at_[stage] = end;
      result_.busy[stage] += cost;
      count_live(kind, stage, part);
      if (keep_) {
        result_.stages[stage].push_back(
            {.kind = "FBW"[kind],
             .micro_batch = each.micro_batch,
             .chunk = each.chunk,
             .begin = begin,
             .end = end});
      }
    }
    ++next_[stage];
    return true;
  }

  const pipeline::Schedule& schedule_;
  const std::vector<PartCost>& parts_;
  double message_;
  bool keep_;
  std::size_t stages_;
  std::size_t micro_batches_;
  std::vector<std::size_t> next_;
  std::vector<double> free_at_;
  std::vector<int> live_;
  std::vector<int> most_; ///< live in all parts of a stage, so far
  std::vector<double> ends_[3];
  PipelineRun result_;
};

} // namespace

PipelineRun run_schedule(
    const pipeline::Schedule& schedule,
    const std::vector<PartCost>& parts,
    double message,
    bool keep_passes) {
  return Simulation(schedule, parts, message, keep_passes).run();
}

PipelineRun run_pipeline(
    const RunLayout& layout,
    const std::vector<PartCost>& parts,
    double message,
    bool all_passes,
    EstimatorCache& cache) {
  const std::int64_t micro_batches = layout.micro_batches();
  if (layout.pipeline == 1 && !all_passes) {
    const auto count = static_cast<double>(micro_batches);
    const double time = count * (parts[0].forward + parts[0].backward);
    return {.length = time, .busy = {time}, .live = {1}, .stages = {}};
  }
  const std::int64_t few = 2 * layout.pipeline;
  const std::int64_t more = 3 * layout.pipeline;
  // GPipe has all micro batches live, however many there are.
  const bool steady = layout.schedule != "gpipe";
  if (all_passes || !steady || micro_batches <= more + layout.pipeline) {
    return run_schedule(
        cache.schedule(layout, micro_batches),
        parts,
        message,
        all_passes);
  }
  PipelineRun first =
      run_schedule(cache.schedule(layout, few), parts, message, false);
  PipelineRun second =
      run_schedule(cache.schedule(layout, more), parts, message, false);
  const double groups = static_cast<double>(micro_batches - more) /
      static_cast<double>(more - few);
  second.length += groups * (second.length - first.length);
  for (std::size_t stage = 0; stage < second.busy.size(); ++stage) {
    second.busy[stage] += groups * (second.busy[stage] - first.busy[stage]);
  }
  return second;
}

} // namespace cairn::plan
