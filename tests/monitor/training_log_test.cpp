#include "monitor/fake_clock.h"
#include "monitor/files/scalars.h"
#include "support/own_terminal.h"
#include "support/temporary_folder.h"

#include <cairn/base/file.h>
#include <cairn/monitor/training_log.h>

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

namespace cairn::monitor {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

IterationValues gpt_values() {
  return {
      .iteration = 20,
      .consumed_samples = 640,
      .consumed_tokens = 655360,
      .batch_size = 32,
      .sequence_length = 1024,
      .learning_rate = 1.5e-4,
      .losses = {{"lm loss", 7.125}},
      .grad_norm = 2.0625};
}

// The first part is the line of Megatron-DeepSpeed's training_log().
TEST(IterationLine, IsMegatrons) {
  const IterationSpeed speed{
      .seconds = 0.25,
      .samples_per_second = 128,
      .tokens_per_second = 131072,
      .flops_per_second = 312e12 / 4,
      .utilisation = 0.25,
      .seconds_left = 245};
  EXPECT_EQ(
      iteration_line(gpt_values(), speed, {.iterations = 1000, .ranks = 8}),
      " iteration       20/    1000 | consumed samples:          640 | "
      "consumed tokens:       655360 | elapsed time per iteration (ms): 250.0 "
      "| learning rate: 1.500E-04 | global batch size:    32 | lm loss: "
      "7.125000E+00 | loss scale: 1.0 | grad norm: 2.062 | actual seqlen:  "
      "1024 | number of skipped iterations:   0 | number of nan iterations:   "
      "0 | samples per second: 128.000 | tokens per gpu per second (tgs): "
      "16384.000 | TFLOPs: 78.00 | MFU: 25.0% | tokens per second: 131072.0 | "
      "ETA: 4:05 |");
}

TEST(IterationLine, LeavesOutWhatIsNotKnown) {
  IterationValues values = gpt_values();
  values.grad_norm.reset();
  values.loss_scale = 65536;
  values.params_norm = 12.5;
  values.zeros_in_grad = 17;
  values.curriculum_length = 512;
  values.losses.push_back({"sop loss", 0.7});
  const std::string line = iteration_line(
      values,
      {.seconds = 1, .flops_per_second = 0.038e12},
      {.iterations = 20});
  EXPECT_THAT(
      line,
      HasSubstr(
          "| lm loss: 7.125000E+00 | sop loss: 7.000000E-01 | loss scale: "
          "65536.0 | num zeros: 17 | params norm: 12.500 | curriculum seqlen:  "
          " 512 | actual"));
  EXPECT_THAT(line, HasSubstr("| TFLOPs: 0.0380 |"));
  EXPECT_THAT(line, Not(HasSubstr("grad norm")));
  EXPECT_THAT(line, Not(HasSubstr("MFU")));
  EXPECT_THAT(line, Not(HasSubstr("ETA")));
}

TEST(ValidationLine, IsMegatrons) {
  const std::string dashes(95, '-');
  EXPECT_EQ(
      validation_lines(
          {.at = "iteration 100", .losses = {{"lm loss", std::log(2.0)}}}),
      dashes +
          "\n validation loss at iteration 100 | lm loss value: 6.931472E-01 | "
          "lm loss PPL: 2.000000E+00 | \n" +
          dashes);
  EXPECT_DOUBLE_EQ(perplexity(1000), std::exp(20.0));
}

TEST(MemoryLine, IsMegatrons) {
  EXPECT_EQ(
      memory_line(3, 20, {.bytes = 5 << 20, .peak_bytes = 11 << 19}),
      "[Rank 3] (after 20 iterations) memory (MB) | allocated: 5.00 | max "
      "allocated: 5.50");
}

TEST(Scalars, FlagsChooseMegatrons) {
  IterationValues values = gpt_values();
  values.loss_scale = 1024;
  values.memory = AllocatedMemory{.bytes = 10, .peak_bytes = 20};
  values.optimizer = OptimizerNorms{.momentum = {.l2 = 3}};
  values.timers = {{"forward", 1500}};
  const RunSize run{.iterations = 100, .ranks = 4};
  const auto names = [&](const config::LoggingFlags& flags) {
    std::string all;
    for (const Scalar& scalar : megatron_scalars(
             {values, run, IterationSpeed{.seconds = 0.5}},
             flags)) {
      all += scalar.name + "\n";
    }
    return all;
  };
  config::LoggingFlags flags;
  EXPECT_EQ(
      names(flags),
      "steps-vs-samples/y=steps,x=samples\n"
      "steps-vs-samples/y=samples,x=steps\n"
      "steps-vs-tokens/y=steps,x=tokens\n"
      "steps-vs-tokens/y=tokens,x=steps\n"
      "learning-rate/learning-rate\n"
      "learning-rate/learning-rate vs samples\n"
      "learning-rate/learning-rate vs tokens\n"
      "lm-loss-training/lm loss\n"
      "lm-loss-training/lm loss vs samples\n"
      "lm-loss-training/lm loss vs tokens\n"
      "loss-scale/loss-scale\n"
      "loss-scale/loss-scale vs samples\n"
      "loss-scale/loss-scale vs tokens\n"
      "grad-norm/grad-norm\n"
      "grad-norm/grad-norm vs samples\n"
      "grad-norm/grad-norm vs tokens\n"
      "seqlen/actual_seq_length\n"
      "seqlen/actual_seq_length vs samples\n"
      "seqlen/actual_seq_length vs tokens\n");
  flags.learning_rate_to_tensorboard = false;
  flags.loss_scale_to_tensorboard = false;
  flags.batch_size_to_tensorboard = true;
  flags.world_size_to_tensorboard = true;
  flags.memory_to_tensorboard = true;
  flags.optimizer_states_to_tensorboard = true;
  flags.timers_to_tensorboard = true;
  const std::string chosen = names(flags);
  EXPECT_THAT(chosen, Not(HasSubstr("learning-rate")));
  EXPECT_THAT(chosen, Not(HasSubstr("loss-scale")));
  for (const char* name :
       {"batch-size/batch-size vs tokens\n",
        "world-size/world-size\n",
        "mem-allocated-bytes\n",
        "optimizer/momentum_l2\n",
        "optimizer/momentum_l2 vs tokens\n",
        "optimizer/variance_sqrt_abs_max\n",
        "forward-time\n",
        "iteration-time/iteration-time vs samples\n"}) {
    EXPECT_THAT(chosen, HasSubstr(name));
  }
}

/// A log on a file, with a clock that moves only on demand.
struct LoggedRun {
  FakeClock clock;
  testing::TemporaryFolder folder;
  std::filesystem::path path = folder / "out";
  UniqueFd fd{::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600)};

  TrainingLog::Options options() {
    return {
        .run = {.iterations = 40, .ranks = 2},
        .log_interval = 10,
        .fd = fd.get(),
        .time = clock.source()};
  }
  std::string written() const {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static IterationValues step(std::int64_t iteration, double loss) {
    return {
        .iteration = iteration,
        .batch_size = 4,
        .sequence_length = 8,
        .losses = {{"lm loss", loss}},
        .flops = 1e9};
  }
};

TEST(TrainingLog, AveragesOverItsInterval) {
  LoggedRun test;
  auto options = test.options();
  options.peak_flops = 1e10;
  TrainingLog log(options);
  EXPECT_FALSE(log.live());
  for (std::int64_t i = 1; i <= 20; ++i) {
    test.clock.pass(i <= 10 ? 500 : 100);
    EXPECT_EQ(log.wants(i), i % 10 == 0);
    IterationValues values = LoggedRun::step(i, static_cast<double>(i));
    if (i == 15) { // overflowed: its loss means nothing
      values.losses[0].value = std::numeric_limits<double>::infinity();
      values.skipped = 1;
      values.nan = 1;
    }
    log.iteration(values);
    if (i == 17) {
      const TrainingLog::Pause evaluation(log);
      test.clock.pass(60'000);
    }
  }
  const std::string text = test.written();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_THAT(text, HasSubstr("(ms): 500.0 |"));
  EXPECT_THAT(text, HasSubstr("lm loss: 5.500000E+00"));
  const std::string second = text.substr(text.find('\n') + 1);
  EXPECT_THAT(second, HasSubstr("(ms): 100.0 |"));
  EXPECT_THAT(second, HasSubstr("lm loss: 1.555556E+01"));
  EXPECT_THAT(second, HasSubstr("skipped iterations:   1 |"));
  EXPECT_THAT(second, HasSubstr("nan iterations:   1 |"));
  EXPECT_THAT(second, HasSubstr("samples per second: 40.000"));
  EXPECT_THAT(second, HasSubstr("tokens per second: 320.0"));
  EXPECT_THAT(second, HasSubstr("TFLOPs: 0.0050 | MFU: 50.0%"));
  EXPECT_THAT(second, HasSubstr("ETA: 0:02 |"));
}

TEST(TrainingLog, MeansOfSeveralIterationsCountAsMany) {
  LoggedRun test;
  TrainingLog log(test.options());
  test.clock.pass(800);
  IterationValues eight = LoggedRun::step(8, 2.0);
  eight.iterations = 8;
  log.iteration(eight);
  test.clock.pass(200);
  IterationValues two = LoggedRun::step(10, 7.0);
  two.iterations = 2;
  log.iteration(two);
  EXPECT_THAT(test.written(), HasSubstr("(ms): 100.0 |"));
  EXPECT_THAT(test.written(), HasSubstr("lm loss: 3.000000E+00"));
}

TEST(TrainingLog, TimesOfTheIntervalFollowItsLine) {
  LoggedRun test;
  TrainingLog log(test.options());
  for (const std::int64_t i : {8, 10}) {
    IterationValues values = LoggedRun::step(i, 2.0);
    values.iterations = i == 8 ? 8 : 2;
    values.timers = {{"forward", i == 8 ? 1.0 : 6.0}, {"backward", 4.0}};
    log.iteration(values);
  }
  EXPECT_THAT(
      test.written(),
      HasSubstr("|\ntime (ms) | forward: 2.00 | backward: 4.00\n"));
}

TEST(TrainingLog, DrawsOnTheTerminalThatTheLauncherLends) {
  for (const bool logged : {false, true}) {
    const testing::OwnTerminal terminal;
    ::setenv("TERM", "xterm", 1);
    ::setenv(
        "CAIRN_TERMINAL",
        fmt::format("{}{}", terminal.fd(), logged ? " logged" : "").c_str(),
        1);
    LoggedRun test;
    auto options = test.options();
    options.display = TrainingLog::Display::automatic;
    TrainingLog log(options);
    EXPECT_TRUE(log.live());
    log.iteration(LoggedRun::step(10, 2.0));
    log.validation({.at = "iteration 10", .losses = {{"lm loss", 3.25}}});
    log.finish();
    EXPECT_THAT(terminal.shown(), HasSubstr("loss 2.000"));
    const std::string lines = test.written();
    EXPECT_THAT(lines, HasSubstr("validation loss at iteration 10"));
    EXPECT_THAT(lines, Not(HasSubstr("\x1b")));
    EXPECT_EQ(lines.find(" iteration       10/") != lines.npos, logged);
  }
  for (const char* nonsense : {"", "x", "1000000", "0x", "-1", "3 other"}) {
    ::setenv("CAIRN_TERMINAL", nonsense, 1);
    LoggedRun test;
    auto options = test.options();
    options.display = TrainingLog::Display::automatic;
    EXPECT_FALSE(TrainingLog(options).live()) << nonsense;
  }
  ::unsetenv("CAIRN_TERMINAL");
}

TEST(TrainingLog, AnIntervalOfOverflowsHasNoLoss) {
  LoggedRun test;
  TrainingLog log(test.options());
  IterationValues values = LoggedRun::step(10, 1.0);
  values.iterations = values.skipped = 10;
  log.iteration(values);
  EXPECT_THAT(test.written(), Not(HasSubstr("lm loss")));
}

TEST(TrainingLog, DrawsInPlaceAtMostTenTimesASecond) {
  LoggedRun test;
  auto options = test.options();
  options.display = TrainingLog::Display::live;
  {
    TrainingLog log(options);
    EXPECT_TRUE(log.live());
    EXPECT_TRUE(log.wants(1));
    for (std::int64_t i = 1; i <= 40; ++i) {
      test.clock.pass(50);
      log.iteration(LoggedRun::step(i, 5.0 - 0.1 * static_cast<double>(i)));
      if (i == 20) {
        log.validation({.at = "iteration 20", .losses = {{"lm loss", 3.25}}});
      }
    }
    log.finish();
  }
  const std::string text = test.written();
  const auto count = [&](std::string_view part) {
    int found = 0;
    for (auto at = text.find(part); at != text.npos;
         at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  // Every second step, the validation's, the last step and finish().
  EXPECT_EQ(count("\x1b[J\x1b["), 20 + 1 + 1 + 1);
  EXPECT_THAT(text, HasSubstr("validation loss at iteration 20"));
  EXPECT_THAT(text, HasSubstr("valid 3.250"));
  EXPECT_THAT(text, Not(HasSubstr("elapsed time per iteration")));
  EXPECT_THAT(
      text,
      HasSubstr("loss 1.000  valid 3.250  lr 0.0e+00  640 tokens/s"));
  EXPECT_EQ(text.substr(text.size() - 2), "\r\n") << "the cursor is below";
}

} // namespace
} // namespace cairn::monitor
