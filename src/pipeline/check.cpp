#include <cairn/pipeline/check.h>

#include "pipeline/check_messages.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace cairn::pipeline {

namespace {

/// How far a micro batch is on a stage.
struct Progress {
  bool loaded = false;
  bool received = false;
  bool forward = false;
  bool sent = false;
  bool gradient = false;
  bool backward = false;
  bool returned = false;
};

/// Follows the instructions of one stage.
class StageCheck {
 public:
  StageCheck(const Schedule& schedule, std::size_t stage)
      : schedule_(schedule),
        stage_(stage),
        first_(stage == 0),
        last_(stage + 1 == schedule.stages.size()),
        progress_(static_cast<std::size_t>(schedule.micro_batches)) {}

  void run() {
    const auto& program = schedule_.stages[stage_];
    for (at_ = 0; at_ < program.size(); ++at_) {
      follow(program[at_]);
    }
    for (const Progress& each : progress_) {
      require(is_over(each), "a micro batch never gets through this stage");
    }
    require(
        stepped_ == schedule_.trains && shared_ == schedule_.trains,
        "training ends with a step and tied weights shared, nothing else does");
  }

  int live_activations() const { return most_live_; }
  int buffers() const { return most_buffers_; }

 private:
  bool is_over(const Progress& p) const {
    if (!schedule_.trains) {
      return p.forward && (last_ || p.sent);
    }
    return p.backward && (first_ || p.returned);
  }

  void require(bool holds, const char* what) const {
    if (holds) {
      return;
    }
    const auto& program = schedule_.stages[stage_];
    throw ConfigError(
        {.what = what,
         .where = at_ < program.size()
             ? fmt::format(
                   "schedule {}, stage {}, instruction {} ({} {})",
                   schedule_.name,
                   stage_,
                   at_,
                   op_name(program[at_].op),
                   program[at_].micro_batch)
             : fmt::format(
                   "schedule {}, end of stage {}",
                   schedule_.name,
                   stage_),
         .remedy = "make schedules with with_messages()"});
  }

  void follow(const Instruction& instruction) {
    require(!shared_, "something follows the end of the batch");
    switch (instruction.op) {
      case Op::receive_tied_gradients:
        require(
            !tied_received_ && backwards_ + 1 == schedule_.micro_batches,
            "tied gradients are to arrive before the last backward");
        tied_received_ = true;
        return;
      case Op::send_tied_gradients:
        require(
            tied_received_ && !tied_sent_ && all_backward(),
            "tied gradients are to leave after the last backward");
        tied_sent_ = true;
        return;
      case Op::step:
        require(
            tied_sent_ && !stepped_,
            "the step comes once, after all gradients");
        stepped_ = true;
        return;
      case Op::share_tied_weights:
        require(stepped_, "tied weights change with the step");
        shared_ = true;
        return;
      default:
        require(!stepped_, "a pass after the step");
        follow_micro_batch(instruction);
    }
  }

  bool all_backward() const { return backwards_ == schedule_.micro_batches; }

  void follow_micro_batch(const Instruction& instruction) {
    require(
        instruction.micro_batch >= 0 &&
            instruction.micro_batch < schedule_.micro_batches,
        "no such micro batch");
    Progress& p = progress_[static_cast<std::size_t>(instruction.micro_batch)];
    claim(instruction);
    const auto once = [&](bool& done, bool allowed, const char* what) {
      require(!done && allowed, what);
      done = true;
    };
    switch (instruction.op) {
      case Op::load_micro_batch:
        once(
            p.loaded,
            (first_ || last_) && !p.forward,
            "only the ends load data, once and before forward");
        break;
      case Op::receive_activation:
        once(p.received, !first_, "an activation arrives once, from before");
        break;
      case Op::forward:
        once(
            p.forward,
            (first_ || p.received) && (p.loaded || !(first_ || last_)),
            "forward once, with everything there");
        most_live_ = std::max(most_live_, ++live_);
        break;
      case Op::send_activation:
        once(p.sent, !last_ && p.forward, "an activation leaves after forward");
        break;
      case Op::receive_gradient:
        once(
            p.gradient,
            !last_ && p.sent && schedule_.trains,
            "a gradient arrives once, for an activation that left");
        break;
      case Op::backward:
        once(
            p.backward,
            p.forward && (last_ || p.gradient),
            "backward once, with its gradient there");
        ++backwards_;
        --live_;
        break;
      case Op::send_gradient:
        once(
            p.returned,
            !first_ && p.backward,
            "a gradient leaves once, after backward");
        break;
      default:
        require(false, "no such instruction");
    }
    if (is_over(p)) {
      occupants_.erase(instruction.buffer);
    }
  }

  /// A buffer belongs to one micro batch from its first instruction to its
  /// last.
  void claim(const Instruction& instruction) {
    require(
        instruction.buffer >= 0 &&
            instruction.buffer < schedule_.buffers[stage_],
        "no such buffer");
    for (const auto& [buffer, occupant] : occupants_) {
      require(
          (buffer == instruction.buffer) ==
              (occupant == instruction.micro_batch),
          "a buffer that another micro batch is in, or two for one");
    }
    occupants_.emplace(instruction.buffer, instruction.micro_batch);
    most_buffers_ =
        std::max(most_buffers_, static_cast<int>(occupants_.size()));
  }

  const Schedule& schedule_;
  const std::size_t stage_;
  const bool first_;
  const bool last_;
  std::size_t at_ = 0;
  std::vector<Progress> progress_;
  std::map<int, int> occupants_; ///< micro batch by buffer
  int backwards_ = 0;
  int live_ = 0;
  int most_live_ = 0;
  int most_buffers_ = 0;
  bool tied_received_ = false;
  bool tied_sent_ = false;
  bool stepped_ = false;
  bool shared_ = false;
};

} // namespace

ScheduleLoad check(const Schedule& schedule) {
  if (schedule.stages.empty() || schedule.micro_batches < 1 ||
      schedule.buffers.size() != schedule.stages.size()) {
    throw ConfigError(
        {.what = "a schedule without stages, micro batches or buffers",
         .where = schedule.name});
  }
  ScheduleLoad load;
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    StageCheck each(schedule, stage);
    each.run();
    load.live_activations.push_back(each.live_activations());
    load.buffers.push_back(each.buffers());
  }
  check_messages(schedule);
  return load;
}

} // namespace cairn::pipeline
