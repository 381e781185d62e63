#include "pipeline/check.h"

#include "pipeline/check_messages.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace cairn::pipeline {

namespace {

/// Progress of a micro batch in a chunk of a stage.
struct Progress {
  bool loaded = false;
  bool received = false;
  bool forward = false;
  bool sent = false;
  bool gradient = false;
  bool backward = false;
  bool returned = false;
  bool weights = false;
};

/// Follows the instructions of one stage.
class StageCheck {
 public:
  StageCheck(const Schedule& schedule, std::size_t stage)
      : schedule_(schedule),
        stage_(stage),
        progress_(
            static_cast<std::size_t>(schedule.micro_batches) *
            static_cast<std::size_t>(schedule.chunks)),
        passes_(
            static_cast<int>(progress_.size()) *
            (schedule.splits_backward ? 2 : 1)),
        buffer_of_(progress_.size(), none),
        occupants_(
            static_cast<std::size_t>(std::max(schedule.buffers[stage], 0)),
            none) {}

  void run() {
    const auto& program = schedule_.stages[stage_];
    for (at_ = 0; at_ < program.size(); ++at_) {
      follow(program[at_]);
    }
    for (std::size_t item = 0; item < progress_.size(); ++item) {
      require(
          is_over(progress_[item], ends_of(item)),
          "a micro batch never gets through this stage");
    }
    require(
        stepped_ == schedule_.trains && shared_ == schedule_.trains,
        "training ends with a step and tied weights shared, nothing else does");
  }

  int live_activations() const { return most_live_; }
  int buffers() const { return most_buffers_; }

 private:
  /// Says whether a part of the model is the first or the last of all.
  struct Ends {
    bool first = false;
    bool last = false;
  };
  Ends ends_of(std::size_t item) const {
    const auto chunk = item / static_cast<std::size_t>(schedule_.micro_batches);
    return {
        stage_ == 0 && chunk == 0,
        stage_ + 1 == schedule_.stages.size() &&
            chunk + 1 == static_cast<std::size_t>(schedule_.chunks)};
  }

  bool is_over(const Progress& p, Ends ends) const {
    if (!schedule_.trains) {
      return p.forward && (ends.last || p.sent);
    }
    return p.backward && (ends.first || p.returned) &&
        (!schedule_.splits_backward || p.weights);
  }

  void require(bool holds, const char* what) const {
    if (holds) {
      return;
    }
    const auto& program = schedule_.stages[stage_];
    throw UsageError(
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
            !tied_received_ && passes_done_ + 1 == passes_,
            "tied gradients are to arrive before the last pass");
        tied_received_ = true;
        return;
      case Op::send_tied_gradients:
        require(
            tied_received_ && !tied_sent_ && passes_done_ == passes_,
            "tied gradients are to leave after the last pass");
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

  void follow_micro_batch(const Instruction& instruction) {
    const std::size_t item = item_of(instruction);
    Progress& p = progress_[item];
    const Ends ends = ends_of(item);
    claim(instruction.buffer, static_cast<int>(item));
    require(
        follow_pass(instruction.op, p, ends) ||
            follow_move(instruction.op, p, ends),
        "no such instruction");
    if (is_over(p, ends)) {
      vacate(instruction.buffer, item);
    }
  }

  /// Place of the instruction's micro batch and chunk in `progress_`.
  std::size_t item_of(const Instruction& instruction) const {
    require(
        instruction.micro_batch >= 0 &&
            instruction.micro_batch < schedule_.micro_batches,
        "no such micro batch");
    require(
        instruction.chunk >= 0 && instruction.chunk < schedule_.chunks,
        "no such chunk");
    return static_cast<std::size_t>(instruction.chunk) *
        static_cast<std::size_t>(schedule_.micro_batches) +
        static_cast<std::size_t>(instruction.micro_batch);
  }

  void once(bool& done, bool allowed, const char* what) const {
    require(!done && allowed, what);
    done = true;
  }

  /// Follows a computation. False for another instruction.
  bool follow_pass(Op op, Progress& p, Ends ends) {
    const bool loads = ends.first || ends.last;
    switch (op) {
      case Op::forward:
        once(
            p.forward,
            (ends.first || p.received) && (p.loaded || !loads),
            "forward once, with everything there");
        most_live_ = std::max(most_live_, ++live_);
        return true;
      case Op::backward:
        once(
            p.backward,
            p.forward && (ends.last || p.gradient),
            "backward once, with its gradient there");
        ++passes_done_;
        live_ -= schedule_.splits_backward ? 0 : 1;
        return true;
      case Op::weight_gradients:
        once(
            p.weights,
            p.backward && schedule_.splits_backward,
            "gradients of weights once, after backward");
        ++passes_done_;
        --live_;
        return true;
      default:
        return false;
    }
  }

  /// Follows data that arrive or leave. False for another instruction.
  bool follow_move(Op op, Progress& p, Ends ends) const {
    switch (op) {
      case Op::load_micro_batch:
        once(
            p.loaded,
            (ends.first || ends.last) && !p.forward,
            "only the ends load data, once and before forward");
        return true;
      case Op::receive_activation:
        once(
            p.received,
            !ends.first,
            "an activation arrives once, from before");
        return true;
      case Op::send_activation:
        once(
            p.sent,
            !ends.last && p.forward,
            "an activation leaves after forward");
        return true;
      case Op::receive_gradient:
        once(
            p.gradient,
            !ends.last && p.sent && schedule_.trains,
            "a gradient arrives once, for an activation that left");
        return true;
      case Op::send_gradient:
        once(
            p.returned,
            !ends.first && p.backward,
            "a gradient leaves once, after backward");
        return true;
      default:
        return false;
    }
  }

  /// Takes a buffer, which belongs to one micro batch from its first
  /// instruction to its last.
  void claim(int buffer, int item) {
    require(
        buffer >= 0 && buffer < schedule_.buffers[stage_],
        "no such buffer");
    int& occupant = occupants_[static_cast<std::size_t>(buffer)];
    int& its = buffer_of_[static_cast<std::size_t>(item)];
    if (its == none && occupant == none) {
      its = buffer;
      occupant = item;
      most_buffers_ = std::max(most_buffers_, ++used_);
    }
    require(
        its == buffer && occupant == item,
        "a buffer that another micro batch is in, or two for one");
  }
  void vacate(int buffer, std::size_t item) {
    occupants_[static_cast<std::size_t>(buffer)] = none;
    buffer_of_[item] = none;
    --used_;
  }

  static constexpr int none = -1;
  const Schedule& schedule_;
  const std::size_t stage_;
  std::size_t at_ = 0;
  std::vector<Progress> progress_; ///< by chunk and micro batch
  const int passes_;               ///< passes that give gradients
  int passes_done_ = 0;
  std::vector<int> buffer_of_; ///< by chunk and micro batch
  std::vector<int> occupants_; ///< item in each buffer
  int used_ = 0;
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
      schedule.chunks < 1 ||
      schedule.buffers.size() != schedule.stages.size()) {
    throw UsageError(
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
