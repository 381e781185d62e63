#include "pipeline/check.h"

#include <cairn/base/error.h>
#include <cairn/pipeline/schedule.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace cairn::pipeline::schedule_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

/// The error of check(); empty if there is none.
std::string complaint(const Schedule& schedule) {
  try {
    check(schedule);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::set<int> numbers_around(int stages) {
  return {
      1,
      2,
      3,
      std::max(1, stages - 1),
      stages,
      stages + 1,
      2 * stages,
      2 * stages + 3};
}

TEST(Schedule, EverySizeIsSoundAndFreeOfDeadlock) {
  for (int stages = 1; stages <= 64; ++stages) {
    for (const int count : numbers_around(stages)) {
      SCOPED_TRACE(
          std::to_string(stages) + " stages, " + std::to_string(count));
      const ScheduleLoad all = check(gpipe(stages, count));
      const ScheduleLoad few = check(one_forward_one_backward(stages, count));
      const ScheduleLoad ahead = check(inference(stages, count));
      for (int s = 0; s < stages; ++s) {
        EXPECT_EQ(all.live_activations[s], count);
        EXPECT_EQ(few.live_activations[s], std::min(stages - s, count));
        // A micro batch more may have arrived for the next forward pass.
        EXPECT_LE(few.buffers[s], std::min(stages - s + 1, count));
        EXPECT_LE(ahead.buffers[s], 2);
      }
      EXPECT_EQ(few.buffers[0], std::min(stages, count));
    }
  }
}

TEST(Schedule, SplitBackwardsKeepWhatTheFirstStageOf1F1BKeeps) {
  for (int stages = 1; stages <= 64; ++stages) {
    for (const int count : numbers_around(stages)) {
      SCOPED_TRACE(
          std::to_string(stages) + " stages, " + std::to_string(count));
      const Schedule schedule = zero_bubble_h1(stages, count);
      EXPECT_TRUE(schedule.splits_backward);
      const ScheduleLoad load = check(schedule);
      for (int s = 0; s < stages; ++s) {
        EXPECT_EQ(load.live_activations[s], std::min(stages, count));
        EXPECT_LE(load.buffers[s], std::min(stages + 1, count));
      }
    }
  }
}

TEST(Schedule, ChunksOfEverySizeAreSoundAndFreeOfDeadlock) {
  for (int stages = 2; stages <= 64; stages += stages < 9 ? 1 : 11) {
    for (const int chunks : {2, 3}) {
      for (const int count : numbers_around(stages)) {
        SCOPED_TRACE(
            std::to_string(stages) + " stages, " + std::to_string(chunks) +
            " chunks, " + std::to_string(count));
        const ScheduleLoad load = check(interleaved(stages, count, chunks));
        for (int s = 0; s < stages; ++s) {
          const int most = 2 * (stages - s - 1) + (chunks - 1) * stages + 1;
          EXPECT_LE(load.live_activations[s], std::min(most, count * chunks));
          if (count % stages == 0) {
            EXPECT_EQ(load.live_activations[s], std::min(most, count * chunks));
          }
          // Micro batches that have arrived for the next passes take buffers
          // too.
          EXPECT_LE(load.buffers[s], most + stages + 1);
        }
        const ScheduleLoad ahead = check(inference(stages, count, chunks));
        for (int s = 0; s < stages; ++s) {
          EXPECT_LE(ahead.buffers[s], stages + 1);
        }
      }
    }
  }
  EXPECT_EQ(interleaved(4, 8, 1), one_forward_one_backward(4, 8));
}

TEST(Schedule, StagesSayWhatTheyNeedWhenTheyNeedIt) {
  using enum Op;
  EXPECT_THAT(
      one_forward_one_backward(2, 2).stages[0],
      ElementsAre(
          Instruction{load_micro_batch, 0, 0},
          Instruction{forward, 0, 0},
          Instruction{send_activation, 0, 0},
          Instruction{load_micro_batch, 1, 1},
          Instruction{forward, 1, 1},
          Instruction{send_activation, 1, 1},
          Instruction{receive_gradient, 0, 0},
          Instruction{backward, 0, 0},
          Instruction{receive_gradient, 1, 1},
          Instruction{receive_tied_gradients},
          Instruction{backward, 1, 1},
          Instruction{send_tied_gradients},
          Instruction{step},
          Instruction{share_tied_weights}));
  EXPECT_THAT(
      inference(2, 1).stages[1],
      ElementsAre(
          Instruction{receive_activation, 0, 0},
          Instruction{load_micro_batch, 0, 0},
          Instruction{forward, 0, 0}));
}

TEST(Schedule, ActivationsAreAskedForBeforeABackwardPass) {
  using enum Op;
  const Schedule schedule = one_forward_one_backward(2, 4);
  std::vector<std::pair<Op, int>> order;
  for (const Instruction& each : schedule.stages[1]) {
    if (each.op == receive_activation || each.op == forward ||
        each.op == backward) {
      order.emplace_back(each.op, each.micro_batch);
    }
  }
  EXPECT_THAT(
      order,
      ElementsAre(
          Pair(receive_activation, 0),
          Pair(forward, 0),
          Pair(receive_activation, 1),
          Pair(backward, 0),
          Pair(forward, 1),
          Pair(receive_activation, 2),
          Pair(backward, 1),
          Pair(forward, 2),
          Pair(receive_activation, 3),
          Pair(backward, 2),
          Pair(forward, 3),
          Pair(backward, 3)));
}

TEST(Schedule, LateMessagesComeBehindThePassesOfTheirTime) {
  using enum Op;
  const Schedule early = one_forward_one_backward(2, 4);
  const Schedule late = with_late_messages(early);
  EXPECT_EQ(describe(late), describe(early));
  EXPECT_NE(late, early);
  const auto& program = late.stages[1];
  for (std::size_t i = 0; i < program.size(); ++i) {
    // The first two arrive before the first backward pass.
    if (program[i].op == receive_activation && program[i].micro_batch > 1) {
      EXPECT_EQ(program[i - 1].op, send_gradient);
    }
  }
  for (int stages = 2; stages <= 8; ++stages) {
    check(with_late_messages(zero_bubble_h1(stages, 2 * stages)));
    check(with_late_messages(interleaved(stages, 2 * stages, 2)));
    check(with_late_messages(inference(stages, 5)));
  }
}

TEST(Schedule, IsDrawnForPeople) {
  EXPECT_EQ(
      describe(one_forward_one_backward(4, 8)),
      "stage 0  F0 F1 F2 F3 .  .  .  B0 F4 B1 F5 B2 F6 B3 F7 B4 .  B5 .  B6 "
      ".  B7\n"
      "stage 1  .  F0 F1 F2 .  .  B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 .  B6 .  "
      "B7\n"
      "stage 2  .  .  F0 F1 .  B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 .  B7\n"
      "stage 3  .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7\n");
  EXPECT_EQ(
      describe(gpipe(2, 3)),
      "stage 0  F0 F1 F2 .  .  B0 B1 B2\n"
      "stage 1  .  F0 F1 F2 B0 B1 B2\n");
  EXPECT_EQ(
      describe(zero_bubble_h1(3, 4)),
      "stage 0  F0 F1 F2 .  .  B0 W0 F3 B1 W1 B2 W2 B3 W3\n"
      "stage 1  .  F0 F1 .  B0 F2 B1 W0 F3 B2 W1 B3 W2 W3\n"
      "stage 2  .  .  F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3\n");
  EXPECT_EQ(
      describe(interleaved(2, 2, 2)),
      "stage 0  F0.0 F1.0 F0.1 F1.1 .    B0.1 .    B1.1 B0.0 B1.0\n"
      "stage 1  .    F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0\n");
}

TEST(ScheduleCheck, SeesBlockingMessagesCross) {
  // Micro batch 2 goes up before the gradient of 1 comes down. If both sides
  // listen first, nobody speaks.
  Schedule schedule = one_forward_one_backward(2, 3);
  auto& first = schedule.stages[0];
  const auto gradient =
      std::find_if(first.begin(), first.end(), [](const Instruction& each) {
        return each.op == Op::receive_gradient && each.micro_batch == 1;
      });
  ASSERT_NE(gradient, first.end());
  ASSERT_EQ((gradient - 1)->op, Op::send_activation);
  std::iter_swap(gradient, gradient - 1);
  EXPECT_THAT(
      complaint(schedule),
      HasSubstr("stage 0 at gradient 1 from 1 to 0; stage 1 at activation 2 "
                "from 0 to 1"));
}

TEST(ScheduleCheck, SeesWhatIsMissingDoubledOrInTheWay) {
  using enum Op;
  const Schedule good = one_forward_one_backward(3, 4);
  for (const Schedule& sound :
       {good, interleaved(3, 6, 2), zero_bubble_h1(3, 4)}) {
    EXPECT_EQ(complaint(sound), "");
    // Omitting or doubling any instruction is noticed.
    for (std::size_t s = 0; s < sound.stages.size(); ++s) {
      for (std::size_t i = 0; i < sound.stages[s].size(); ++i) {
        const auto place = static_cast<long>(i);
        Schedule less = sound;
        less.stages[s].erase(less.stages[s].begin() + place);
        EXPECT_NE(complaint(less), "")
            << sound.name << ' ' << s << " without " << i;
        Schedule more = sound;
        more.stages[s].insert(
            more.stages[s].begin() + place,
            more.stages[s][i]);
        EXPECT_NE(complaint(more), "")
            << sound.name << ' ' << s << " doubles " << i;
      }
    }
  }
  Schedule crowded = good;
  crowded.stages[0][3].buffer = 0; // load 1 where 0 is
  EXPECT_THAT(
      complaint(crowded),
      HasSubstr("stage 0, instruction 3 (load_micro_batch 1)"));
  Schedule outside = good;
  outside.buffers[0] = 1;
  EXPECT_THAT(complaint(outside), HasSubstr("no such buffer"));
  outside.stages[0][0].micro_batch = 99;
  EXPECT_THAT(complaint(outside), HasSubstr("no such micro batch"));
  EXPECT_NE(complaint(Schedule{}), "");
  Schedule chunks = interleaved(2, 2, 2);
  chunks.stages[0][0].chunk = 2;
  EXPECT_THAT(complaint(chunks), HasSubstr("no such chunk"));
  Schedule hasty = zero_bubble_h1(2, 2);
  auto& program = hasty.stages[1];
  const auto is = [](Op op) {
    return [op](const Instruction& each) {
      return each.op == op && each.micro_batch == 0;
    };
  };
  std::iter_swap(
      std::find_if(program.begin(), program.end(), is(backward)),
      std::find_if(program.begin(), program.end(), is(weight_gradients)));
  EXPECT_THAT(
      complaint(hasty),
      HasSubstr("gradients of weights once, after backward"));
}

TEST(ScheduleCheck, SeesStagesWaitForEachOther) {
  using enum Op;
  Schedule schedule = gpipe(2, 2);
  // Stage 0 wants its first gradient before it sends the second activation.
  auto& first = schedule.stages[0];
  const auto sent =
      std::find(first.begin(), first.end(), Instruction{send_activation, 1, 1});
  const auto wanted = std::find(
      first.begin(),
      first.end(),
      Instruction{receive_gradient, 0, 0});
  ASSERT_LT(sent, wanted);
  std::rotate(sent, wanted, wanted + 1);
  EXPECT_THAT(
      complaint(schedule),
      HasSubstr("stage 0 at gradient 0 from 1 to 0; stage 1 at activation 1 "
                "from 0 to 1"));
}

TEST(Schedule, RefusesWhatCannotRun) {
  EXPECT_THROW(gpipe(0, 1), ConfigError);
  EXPECT_THROW(one_forward_one_backward(2, 0), ConfigError);
  EXPECT_THROW(interleaved(1, 2, 2), ConfigError);
  EXPECT_THROW(interleaved(2, 2, 0), ConfigError);
  EXPECT_THROW(zero_bubble_h1(0, 1), ConfigError);
  EXPECT_THROW(make_schedule("zb-h1", 2, 2, 2), ConfigError);
  EXPECT_THROW(make_schedule("zigzag", 2, 2), ConfigError);
  for (const std::string_view name : schedule_names()) {
    EXPECT_EQ(
        make_schedule(name, 2, 4, name == "interleaved" ? 2 : 1).name,
        name);
  }
  const Pass f0{Pass::Kind::forward, 0};
  const Pass b0{Pass::Kind::backward, 0};
  EXPECT_THROW(with_messages("x", 1, {{b0, f0}, {f0, b0}}), UsageError);
  EXPECT_THROW(with_messages("x", 1, {{{Pass::Kind::forward, 1}}}), UsageError);
  EXPECT_THROW(
      with_messages("x", 1, {{{Pass::Kind::forward, 0, 1}}}),
      UsageError);
}

} // namespace
} // namespace cairn::pipeline::schedule_test
