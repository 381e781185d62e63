#include "pipeline/check_messages.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
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
  bool operator==(const Message&) const = default;

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

/// The activation or gradient that an instruction sends to the part of the
/// model after or before it, or receives from there; none for another
/// instruction.
std::optional<Message> neighbour_message(
    const Instruction& instruction,
    int stage,
    int stages) {
  const int part = instruction.chunk * stages + stage;
  const auto message = [&](Cargo cargo, int from_part, int to_part) {
    return Message{
        .cargo = cargo,
        .micro_batch = instruction.micro_batch,
        .from = (from_part + stages) % stages,
        .to = (to_part + stages) % stages,
        .part = from_part};
  };
  switch (instruction.op) {
    case Op::receive_activation:
      return message(Cargo::activation, part - 1, part);
    case Op::send_activation:
      return message(Cargo::activation, part, part + 1);
    case Op::receive_gradient:
      return message(Cargo::gradient, part + 1, part);
    case Op::send_gradient:
      return message(Cargo::gradient, part, part - 1);
    default:
      return std::nullopt;
  }
}

/// Adds what an instruction exchanges with all stages that share weights.
void add_tied(Op op, int stage, int stages, std::vector<Message>& messages) {
  const auto add = [&](Cargo cargo, int from, int to) {
    messages.push_back({.cargo = cargo, .from = from, .to = to, .part = from});
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

/// Messages of a stage, in the order in which it takes part in them.
std::vector<Message> messages_of(const Schedule& schedule, int stage) {
  const int stages = static_cast<int>(schedule.stages.size());
  std::vector<Message> result;
  for (const Instruction& each :
       schedule.stages[static_cast<std::size_t>(stage)]) {
    if (const auto message = neighbour_message(each, stage, stages)) {
      result.push_back(*message);
    }
    add_tied(each.op, stage, stages, result);
  }
  return result;
}

} // namespace

void check_messages(const Schedule& schedule) {
  const int stages = static_cast<int>(schedule.stages.size());
  // The messages are in reverse: the next one is last.
  std::vector<std::vector<Message>> waiting;
  std::vector<int> moving;
  for (int stage = 0; stage < stages; ++stage) {
    auto& mine = waiting.emplace_back(messages_of(schedule, stage));
    std::reverse(mine.begin(), mine.end());
    moving.push_back(stage);
  }
  while (!moving.empty()) {
    auto& mine = waiting[static_cast<std::size_t>(moving.back())];
    if (mine.empty()) {
      moving.pop_back();
      continue;
    }
    const Message next = mine.back();
    const int other = moving.back() == next.from ? next.to : next.from;
    auto& theirs = waiting[static_cast<std::size_t>(other)];
    if (!theirs.empty() && theirs.back() == next) {
      mine.pop_back();
      theirs.pop_back();
      moving.push_back(other);
    } else {
      moving.pop_back();
    }
  }
  std::vector<std::string> stuck;
  for (int stage = 0; stage < stages; ++stage) {
    const auto& left = waiting[static_cast<std::size_t>(stage)];
    if (!left.empty()) {
      stuck.push_back(fmt::format("stage {} at {}", stage, left.back().text()));
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
