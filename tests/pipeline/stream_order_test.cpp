#include "pipeline/lanes.h"

#include <cairn/pipeline/schedule.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// The messages of a pipeline under NCCL's rules, without a GPU. On each rank
// the calls of a group run in the order in which they were made, and none
// begins before the passes that were queued ahead of it have ended. A message
// needs both its ends: a receive holds up the calls behind it until the sender
// comes, and a send until the receiver comes. A pass begins when its message is
// there. The host goes on at once, except for the announcement of a tensor.

namespace cairn::pipeline::stream_order_test {
namespace {

enum class Announced { never, first_of_each_chunk, all };

struct Rules {
  Announced announced = Announced::first_of_each_chunk;
  /// The groups that messages go over: one for each lane, or one for all links.
  bool has_lanes = true;
  /// True if all streams of a GPU share one queue, as with
  /// CUDA_DEVICE_MAX_CONNECTIONS=1: a call begins after all those have begun
  /// that were made before it.
  bool one_queue = false;
};

/// A pass, or one end of a message.
struct Call {
  enum class Kind { pass, send, receive };
  Kind kind{};
  std::pair<int, int> ends{}; ///< ranks of a message, the sender first
  int stream = 0;             ///< group of a message; 0 for passes
  std::string name;
  std::optional<std::size_t> after; ///< last pass that was queued before
  std::optional<std::size_t> needs; ///< message that a pass waits for
  bool began = false;
  bool ended = false;
};

/// The calls of one rank and what its host does: it queues the calls in their
/// order, and before some of them it waits for an earlier one.
struct Rank {
  std::vector<Call> calls;
  std::map<std::size_t, std::size_t> waits; ///< call that is waited for
  std::size_t queued = 0;
};

/// Queues the instructions of a stage as BatchRun does.
class Host {
 public:
  Host(const Schedule& schedule, int stage, Rules rules)
      : schedule_(schedule),
        stages_(static_cast<int>(schedule.stages.size())),
        stage_(stage),
        rules_(rules) {
    for (const Instruction& each :
         schedule.stages[static_cast<std::size_t>(stage)]) {
      follow(each);
    }
  }
  Rank take() { return std::move(rank_); }

 private:
  using Item = std::pair<int, int>; ///< micro batch and chunk
  static Item item_of(const Instruction& each) {
    return {each.micro_batch, each.chunk};
  }
  int part_of(const Instruction& each) const {
    return each.chunk * stages_ + stage_;
  }

  void follow(const Instruction& each) {
    const int part = part_of(each);
    switch (each.op) {
      case Op::receive_activation:
        due_.push_back(each);
        return ask_ahead();
      case Op::forward:
        while (part > 0 && !activations_.contains(item_of(each))) {
          ask_next();
        }
        ask_ahead();
        return add_pass(part > 0 ? activations_ : none_, each, "forward");
      case Op::send_activation:
        if (is_announced(sent_, each)) {
          add_message(Call::Kind::send, 'w', part, part + 1, each);
        }
        add_message(Call::Kind::send, 'a', part, part + 1, each);
        return;
      case Op::receive_gradient:
        gradients_[item_of(each)] =
            add_message(Call::Kind::receive, 'g', part + 1, part, each);
        return;
      case Op::backward:
        return add_pass(
            part + 1 < stages_ * schedule_.chunks ? gradients_ : none_,
            each,
            "backward");
      case Op::send_gradient:
        add_message(Call::Kind::send, 'g', part, part - 1, each);
        return;
      case Op::weight_gradients:
        return add_pass(none_, each, "weights");
      default:
        return; // data and tied weights are not looked at
    }
  }

  void ask_ahead() {
    while (!due_.empty()) {
      if (would_announce(received_, due_.front())) {
        return expect_word();
      }
      ask_next();
    }
  }

  void expect_word() {
    if (!expected_) {
      const int part = part_of(due_.front());
      expected_ =
          add_message(Call::Kind::receive, 'w', part - 1, part, due_.front());
    }
  }

  void ask_next() {
    const Instruction next = due_.front();
    const int part = part_of(next);
    if (is_announced(received_, next)) {
      expect_word();
      rank_.waits[rank_.calls.size()] = *std::exchange(expected_, {});
    }
    due_.pop_front();
    activations_[item_of(next)] =
        add_message(Call::Kind::receive, 'a', part - 1, part, next);
  }

  bool would_announce(const std::set<int>& heard, const Instruction& each)
      const {
    return rules_.announced == Announced::all ||
        (rules_.announced == Announced::first_of_each_chunk &&
         !heard.contains(each.chunk));
  }
  bool is_announced(std::set<int>& heard, const Instruction& each) const {
    const bool result = would_announce(heard, each);
    heard.insert(each.chunk);
    return result;
  }

  std::size_t add_message(
      Call::Kind kind,
      char cargo,
      int from_part,
      int to_part,
      const Instruction& each) {
    const int from = from_part % stages_;
    const int to = to_part % stages_;
    const bool gradient = cargo == 'g';
    const int link = gradient ? to : from;
    const int lane = rules_.has_lanes ? lane_of(link, stages_) : 0;
    rank_.calls.push_back(
        {.kind = kind,
         .ends = {from, to},
         .stream = 1 + 2 * lane + (gradient ? 1 : 0),
         .name = std::string(1, cargo) + " " +
             std::to_string(each.micro_batch) + " of part " +
             std::to_string(from_part),
         // Announcements have a stream of their own beside the passes.
         .after = cargo == 'w' ? std::nullopt : last_pass_});
    return rank_.calls.size() - 1;
  }

  void add_pass(
      const std::map<Item, std::size_t>& messages,
      const Instruction& each,
      const char* name) {
    const auto found = messages.find(item_of(each));
    rank_.calls.push_back(
        {.kind = Call::Kind::pass,
         .name = name,
         .needs = found == messages.end() ? std::nullopt
                                          : std::optional(found->second)});
    last_pass_ = rank_.calls.size() - 1;
  }

  const Schedule& schedule_;
  const int stages_;
  const int stage_;
  const Rules rules_;
  Rank rank_;
  std::deque<Instruction> due_;
  std::optional<std::size_t> expected_;
  std::map<Item, std::size_t> activations_;
  std::map<Item, std::size_t> gradients_;
  const std::map<Item, std::size_t> none_;
  std::set<int> sent_;
  std::set<int> received_;
  std::optional<std::size_t> last_pass_;
};

/// Runs the hosts and their GPUs.
class Machine {
 public:
  Machine(const Schedule& schedule, Rules rules) : rules_(rules) {
    for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
      ranks_.push_back(Host(schedule, static_cast<int>(stage), rules).take());
    }
  }

  /// Says where each rank is stuck in the end; empty if all come to their end.
  std::string run() {
    bool moved = true;
    while (moved && trouble_.empty()) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        moved |= queue_calls(ranks_[rank]);
        moved |= begin_calls(rank);
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const Call& each : ranks_[rank].calls) {
        if (!each.ended) {
          trouble_ += std::to_string(rank) + " at " + each.name + "; ";
          break;
        }
      }
    }
    return trouble_;
  }

 private:
  static bool queue_calls(Rank& rank) {
    const std::size_t before = rank.queued;
    for (; rank.queued < rank.calls.size(); ++rank.queued) {
      const auto wait = rank.waits.find(rank.queued);
      if (wait != rank.waits.end() && !rank.calls[wait->second].ended) {
        break;
      }
    }
    return rank.queued != before;
  }

  bool begin_calls(std::size_t number) {
    Rank& rank = ranks_[number];
    bool moved = false;
    std::set<int> busy; // streams with a call that has not ended
    if (!trouble_.empty()) {
      return false;
    }
    for (std::size_t i = 0; i < rank.queued; ++i) {
      Call& call = rank.calls[i];
      const auto ended = [&](std::optional<std::size_t> other) {
        return !other || rank.calls[*other].ended;
      };
      if (!call.began && !busy.contains(call.stream) && ended(call.after) &&
          ended(call.needs)) {
        begin(call);
        moved = true;
      }
      if (!call.ended) {
        busy.insert(call.stream);
      }
      if (rules_.one_queue && !call.began) {
        break;
      }
    }
    return moved;
  }

  void begin(Call& call) {
    call.began = true;
    if (call.kind == Call::Kind::pass) {
      call.ended = true;
      return;
    }
    Call*& waiting = half_[{call.stream, call.ends.first, call.ends.second}];
    if (waiting == nullptr) {
      waiting = &call;
      return;
    }
    if (waiting->name != call.name) {
      trouble_ += waiting->name + " met " + call.name + "; ";
    }
    waiting->ended = call.ended = true;
    waiting = nullptr;
  }

  const Rules rules_;
  std::vector<Rank> ranks_;
  /// The end of a message that has begun alone, by group and ranks.
  std::map<std::tuple<int, int, int>, Call*> half_;
  std::string trouble_;
};

std::vector<Schedule> schedules(int stages, int micro_batches) {
  std::vector<Schedule> result = {
      gpipe(stages, micro_batches),
      one_forward_one_backward(stages, micro_batches),
      zero_bubble_h1(stages, micro_batches),
      inference(stages, micro_batches)};
  for (const int chunks : {2, 3}) {
    result.push_back(interleaved(stages, micro_batches, chunks));
    result.push_back(inference(stages, micro_batches, chunks));
  }
  return result;
}

std::set<int> numbers_around(int stages) {
  return {1, 2, stages - 1, stages, stages + 1, 2 * stages + 3};
}

TEST(StreamOrder, NoScheduleHangsOverNccl) {
  for (int stages = 2; stages <= 8; ++stages) {
    for (const int count : numbers_around(stages)) {
      for (const Schedule& schedule : schedules(stages, count)) {
        for (const Announced announced :
             {Announced::never,
              Announced::first_of_each_chunk,
              Announced::all}) {
          // Where every message is announced and the last stage sends to the
          // first, the stages need more than one queue.
          const bool needs_queues =
              announced == Announced::all && schedule.chunks > 1;
          for (const bool one_queue : {false, !needs_queues}) {
            Machine machine(
                schedule,
                {.announced = announced, .one_queue = one_queue});
            EXPECT_EQ(machine.run(), "")
                << schedule.name << ", " << stages << " stages, " << count
                << " micro batches, " << schedule.chunks << " chunks, "
                << static_cast<int>(announced) << (one_queue ? ", 1" : "");
          }
        }
      }
    }
  }
}

TEST(StreamOrder, ManyAnnouncementsInOneQueueWouldHang) {
  EXPECT_NE(
      Machine(
          interleaved(2, 7, 2),
          {.announced = Announced::all, .one_queue = true})
          .run(),
      "");
}

// Two stages that are each other's next one: both ask before they send.
TEST(StreamOrder, OneGroupForAllLinksWouldHang) {
  EXPECT_NE(
      Machine(
          interleaved(2, 4, 2),
          {.announced = Announced::never, .has_lanes = false})
          .run(),
      "");
}

TEST(StreamOrder, SeesMessagesThatCross) {
  Schedule schedule = one_forward_one_backward(2, 3);
  std::vector<Instruction*> sent;
  for (Instruction& each : schedule.stages[0]) {
    if (each.op == Op::send_activation) {
      sent.push_back(&each);
    }
  }
  std::swap(*sent[1], *sent[2]);
  EXPECT_THAT(
      Machine(schedule, {.announced = Announced::never}).run(),
      ::testing::HasSubstr("a 1 of part 0 met a 2 of part 0"));
}

TEST(Lanes, GiveEveryStageOneWayInAndOneOut) {
  for (int stages = 1; stages <= 9; ++stages) {
    for (const int chunks : {1, 2}) {
      const int count = stages == 1 ? 0 : links(stages, chunks);
      std::set<std::pair<int, int>> used; // lane and stage
      for (int link = 0; link < count; ++link) {
        const int lane = lane_of(link, stages);
        EXPECT_LT(lane, lanes(stages, chunks));
        for (const int stage : {link, (link + 1) % stages}) {
          EXPECT_TRUE(used.emplace(lane, stage).second)
              << stages << " stages, lane " << lane << ", stage " << stage;
        }
      }
    }
  }
  EXPECT_EQ(lanes(1, 1), 0);
  EXPECT_EQ(lanes(2, 1), 1);
  EXPECT_EQ(lanes(2, 2), 2);
  EXPECT_EQ(lanes(3, 1), 2);
  EXPECT_EQ(lanes(3, 2), 3);
}

} // namespace
} // namespace cairn::pipeline::stream_order_test
