#include "cli/plan/plan_trace.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace cairn::cli {
namespace {

using Json = nlohmann::ordered_json;
using plan::Estimate;

enum Lane { compute, next_stage, last_stage, ranks, copies };
constexpr std::array<const char*, 5> lane_names{
    "compute",
    "to the next stage",
    "to the stage before",
    "messages of data parallel ranks",
    "offloading"};

/// Chrome's trace events of one iteration: a process for each stage, a thread
/// for each of its lanes.
class Trace {
 public:
  explicit Trace(const Estimate& estimate) : estimate_(estimate) {}

  Json events() {
    const auto stages = estimate_.timeline.size();
    for (std::size_t stage = 0; stage < stages; ++stage) {
      free_ = {};
      for (const plan::TimedPass& pass : estimate_.timeline[stage]) {
        add_pass(stage, pass);
        end_ = std::max(end_, pass.end);
      }
    }
    for (std::size_t stage = 0; stage < stages; ++stage) {
      add_step(stage);
      name(stage);
    }
    return std::move(events_);
  }

 private:
  void add(
      std::size_t stage,
      Lane lane,
      const std::string& what,
      const std::string& category,
      double begin,
      double seconds,
      const Json& about = Json::object()) {
    if (seconds <= 0) {
      return;
    }
    constexpr double microseconds = 1e6;
    used_.at(lane) = true;
    events_.push_back(
        {{"name", what},
         {"cat", category},
         {"ph", "X"},
         {"pid", stage},
         {"tid", static_cast<int>(lane)},
         {"ts", begin * microseconds},
         {"dur", seconds * microseconds},
         {"args", about}});
  }

  void add_pass(std::size_t stage, const plan::TimedPass& pass) {
    const std::string what = pass.kind == 'F' ? "forward"
        : pass.kind == 'B'                    ? "backward"
                                              : "weight gradients";
    add(stage,
        compute,
        fmt::format("{} {}", what, pass.micro_batch),
        what,
        pass.begin,
        pass.end - pass.begin,
        {{"micro_batch", pass.micro_batch}, {"chunk", pass.chunk}});
    const auto stages = estimate_.timeline.size();
    const auto chunk = static_cast<std::size_t>(pass.chunk);
    const auto chunks = static_cast<std::size_t>(estimate_.layout.chunks);
    const bool first = stage == 0 && chunk == 0;
    const bool last = stage + 1 == stages && chunk + 1 == chunks;
    if (pass.kind == 'F' && !last) {
      send(stage, next_stage, "activations", pass);
    } else if (pass.kind == 'B' && !first) {
      send(stage, last_stage, "gradients", pass);
    }
  }

  /// A link sends one message after the other.
  void send(
      std::size_t stage,
      Lane lane,
      const char* what,
      const plan::TimedPass& pass) {
    double& free = free_.at(lane);
    const double begin = std::max(free, pass.end);
    free = begin + estimate_.message_seconds;
    add(stage,
        lane,
        fmt::format("{} {}", what, pass.micro_batch),
        "message",
        begin,
        estimate_.message_seconds);
  }

  /// All that follows the last pass of all stages.
  void add_step(std::size_t stage) {
    const plan::TimeParts& time = estimate_.time;
    const double messages = std::max(
        0.0,
        estimate_.iteration_seconds - end_ - time.optimizer - time.offload);
    // From stage 2 on gradients are reduced beside the passes.
    const double reductions = estimate_.layout.zero_stage < 2
        ? std::min(time.gradients, messages)
        : 0;
    double at = end_;
    add(stage, ranks, "reduce gradients", "step", at, reductions);
    at += reductions;
    add(stage, compute, "update", "step", at, time.optimizer);
    at += time.optimizer;
    add(stage, copies, "offloaded states", "step", at, time.offload);
    at += time.offload;
    add(stage, ranks, "gather parameters", "step", at, messages - reductions);
  }

  void name(std::size_t stage) {
    events_.push_back(
        {{"name", "process_name"},
         {"ph", "M"},
         {"pid", stage},
         {"args", {{"name", fmt::format("stage {}", stage)}}}});
    for (std::size_t lane = 0; lane < lane_names.size(); ++lane) {
      if (used_.at(lane)) {
        events_.push_back(
            {{"name", "thread_name"},
             {"ph", "M"},
             {"pid", stage},
             {"tid", lane},
             {"args", {{"name", lane_names.at(lane)}}}});
      }
    }
  }

  const Estimate& estimate_;
  Json events_ = Json::array();
  std::array<double, lane_names.size()> free_{}; ///< when a link is free again
  std::array<bool, lane_names.size()> used_{};
  double end_ = 0; ///< of the last pass
};

} // namespace

std::string plan_trace(const Estimate& estimate) {
  return Json{
             {"traceEvents", Trace(estimate).events()},
             {"displayTimeUnit", "ms"}}
             .dump() +
      "\n";
}

} // namespace cairn::cli
