#include "pipeline/check_messages.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace cairn::pipeline {
namespace {

enum class Cargo { activation, gradient, tied_gradient, tied_weight };

struct Message {
  Cargo cargo{};
  int micro_batch = 0;
  int from = 0;
  int to = 0;
  int part = 0; ///< part of the model that it comes from
  auto operator<=>(const Message&) const = default;

  std::string text() const {
    static constexpr const char* names[] = {
        "activation",
        "gradient",
        "tied gradients",
        "tied weights"};
    return fmt::format(
        "{} {} from {} to {}{}",
        names[static_cast<int>(cargo)],
        micro_batch,
        from,
        to,
        part == from ? "" : fmt::format(" (part {})", part));
  }
};

/// A step of a stage that has to do with messages. Sending an activation or a
/// gradient, and asking for one, does not keep a stage from going on; a pass
/// waits until what it needs has been sent. Tied weights and their gradients
/// are exchanged: both stages wait for each other.
struct Step {
  enum class Kind { send, ask, need, exchange };
  Kind kind{};
  Message message;
};
using Steps = std::vector<Step>;

/// The step of an instruction that concerns one neighbour; none for another
/// instruction.
std::optional<Step> neighbour_step(
    const Instruction& instruction,
    int stage,
    const Schedule& schedule) {
  const int stages = static_cast<int>(schedule.stages.size());
  const int part = instruction.chunk * stages + stage;
  const bool first = part == 0;
  const bool last = part + 1 == stages * schedule.chunks;
  const auto step =
      [&](Step::Kind kind, Cargo cargo, int from_part, int to_part) {
        return Step{
            kind,
            {.cargo = cargo,
             .micro_batch = instruction.micro_batch,
             .from = (from_part + stages) % stages,
             .to = (to_part + stages) % stages,
             .part = from_part}};
      };
  using enum Step::Kind;
  switch (instruction.op) {
    case Op::receive_activation:
      return step(ask, Cargo::activation, part - 1, part);
    case Op::forward:
      return first
          ? std::nullopt
          : std::optional(step(need, Cargo::activation, part - 1, part));
    case Op::send_activation:
      return step(send, Cargo::activation, part, part + 1);
    case Op::receive_gradient:
      return step(ask, Cargo::gradient, part + 1, part);
    case Op::backward:
      return last ? std::nullopt
                  : std::optional(step(need, Cargo::gradient, part + 1, part));
    case Op::send_gradient:
      return step(send, Cargo::gradient, part, part - 1);
    default:
      return std::nullopt;
  }
}

/// Adds what an instruction exchanges with all stages that share weights.
void add_tied(Op op, int stage, int stages, Steps& steps) {
  const auto add = [&](Cargo cargo, int from, int to) {
    steps.push_back(
        {Step::Kind::exchange,
         {.cargo = cargo, .from = from, .to = to, .part = from}});
  };
  switch (op) {
    case Op::receive_tied_gradients:
      for (int from = stage + 1; from < stages; ++from) {
        add(Cargo::tied_gradient, from, stage);
      }
      return;
    case Op::send_tied_gradients:
      for (int to = stage - 1; to >= 0; --to) {
        add(Cargo::tied_gradient, stage, to);
      }
      return;
    case Op::share_tied_weights:
      for (int from = 0; from < stage; ++from) {
        add(Cargo::tied_weight, from, stage);
      }
      for (int to = stage + 1; to < stages; ++to) {
        add(Cargo::tied_weight, stage, to);
      }
      return;
    default:
      return;
  }
}

Steps steps_of(const Schedule& schedule, int stage) {
  Steps result;
  for (const Instruction& each :
       schedule.stages[static_cast<std::size_t>(stage)]) {
    if (const auto step = neighbour_step(each, stage, schedule)) {
      result.push_back(*step);
    }
    add_tied(each.op, stage, static_cast<int>(schedule.stages.size()), result);
  }
  return result;
}

/// The messages of one cargo that a stage sends or asks for, in order.
std::vector<Message> in_order(
    const Steps& steps,
    Step::Kind kind,
    Cargo cargo) {
  std::vector<Message> result;
  for (const Step& each : steps) {
    if (each.kind == kind && each.message.cargo == cargo) {
      result.push_back(each.message);
    }
  }
  return result;
}

/// Messages of one way arrive in the order in which they are sent, whatever the
/// receiver expects.
void check_order(
    const Schedule& schedule,
    const Steps& sender,
    const Steps& receiver,
    Cargo cargo) {
  const auto sent = in_order(sender, Step::Kind::send, cargo);
  const auto asked = in_order(receiver, Step::Kind::ask, cargo);
  const auto [one, other] = std::ranges::mismatch(sent, asked);
  if (one == sent.end() && other == asked.end()) {
    return;
  }
  throw UsageError(
      {.what = "messages are not asked for in the order in which they are sent",
       .where = fmt::format("schedule {}", schedule.name),
       .values = fmt::format(
           "sent: {}; asked for: {}",
           one == sent.end() ? "nothing more" : one->text(),
           other == asked.end() ? "nothing more" : other->text()),
       .remedy = "make schedules with with_messages()"});
}

/// Lets all stages go as far as they can.
class Run {
 public:
  explicit Run(const std::vector<Steps>& stages)
      : stages_(stages), next_(stages.size()) {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
        while (advance(stage)) {
          moved = true;
        }
      }
    }
  }

  /// The step at which a stage waits for ever; null if it comes to its end.
  const Step* waiting(std::size_t stage) const {
    return next_[stage] == stages_[stage].size()
        ? nullptr
        : &stages_[stage][next_[stage]];
  }

 private:
  bool advance(std::size_t stage) {
    const Step* step = waiting(stage);
    if (step == nullptr) {
      return false;
    }
    const Message& message = step->message;
    if (step->kind == Step::Kind::need && !sent_.contains(message)) {
      return false;
    }
    if (step->kind == Step::Kind::exchange) {
      const int other =
          static_cast<int>(stage) == message.from ? message.to : message.from;
      const Step* theirs = waiting(static_cast<std::size_t>(other));
      if (theirs == nullptr || theirs->kind != Step::Kind::exchange ||
          theirs->message != message) {
        return false;
      }
      ++next_[static_cast<std::size_t>(other)];
    }
    if (step->kind == Step::Kind::send) {
      sent_.insert(message);
    }
    ++next_[stage];
    return true;
  }

  const std::vector<Steps>& stages_;
  std::vector<std::size_t> next_;
  std::set<Message> sent_;
};

} // namespace

void check_messages(const Schedule& schedule) {
  const std::size_t count = schedule.stages.size();
  std::vector<Steps> stages;
  for (std::size_t stage = 0; stage < count; ++stage) {
    stages.push_back(steps_of(schedule, static_cast<int>(stage)));
  }
  for (std::size_t stage = 0; stage < count; ++stage) {
    const std::size_t next = (stage + 1) % count;
    check_order(schedule, stages[stage], stages[next], Cargo::activation);
    check_order(schedule, stages[next], stages[stage], Cargo::gradient);
  }
  const Run run(stages);
  std::vector<std::string> stuck;
  for (std::size_t stage = 0; stage < count; ++stage) {
    if (const Step* step = run.waiting(stage)) {
      stuck.push_back(
          fmt::format("stage {} at {}", stage, step->message.text()));
    }
  }
  if (!stuck.empty()) {
    throw UsageError(
        {.what = "stages wait for each other for ever",
         .where = fmt::format("schedule {}", schedule.name),
         .values = fmt::format("{}", fmt::join(stuck, "; ")),
         .remedy = "make schedules with with_messages()"});
  }
}

} // namespace cairn::pipeline
