#include "monitor/fake_clock.h"
#include "monitor/internal/timing_report.h"

#include <cairn/base/error.h>
#include <cairn/monitor/timers.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace cairn::monitor::timers_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Timers, AddUpByName) {
  FakeClock clock;
  Timers timers(clock.source());
  for (const double time : {12.3, 10.0}) {
    timers("forward").start();
    clock.pass(time);
    timers("forward").stop();
    clock.pass(500);
  }
  timers("backward").start();
  clock.pass(34.56);
  timers("backward").stop();

  EXPECT_NEAR(timers("forward").elapsed(), 22.3, 1e-4);
  EXPECT_NEAR(timers("forward").mean(), 11.15, 1e-4);
  EXPECT_EQ(timers("forward").count(), 2);
  // DeepSpeed's lines for these times.
  EXPECT_EQ(
      timers.line({"forward", "absent", "backward"}),
      "time (ms) | forward: 22.30 | backward: 34.56");
  EXPECT_EQ(timers.line(2), "time (ms) | forward: 11.15 | backward: 17.28");
  EXPECT_EQ(timers.line({"absent"}), "");
}

TEST(Timers, ReadersDoNotDisturbEachOther) {
  FakeClock clock;
  Timers timers(clock.source());
  TimerReader often;
  TimerReader seldom;
  for (int i = 0; i < 2; ++i) {
    timers("forward").start();
    clock.pass(8);
    timers("forward").stop();
    EXPECT_EQ(often.take(timers, 2), (std::vector<NamedValue>{{"forward", 4}}));
  }
  EXPECT_EQ(seldom.take(timers), (std::vector<NamedValue>{{"forward", 16}}));
  EXPECT_EQ(time_line(seldom.take(timers)), "time (ms) | forward: 0.00");
  EXPECT_EQ(time_line({}), "");
}

TEST(Timers, RunInsideEachOther) {
  FakeClock clock;
  Timers timers(clock.source());
  {
    const TimerScope outer(timers("backward"));
    clock.pass(5);
    {
      const TimerScope inner(timers("allreduce"));
      clock.pass(2);
    }
    clock.pass(1);
  }
  EXPECT_EQ(timers.line(), "time (ms) | backward: 8.00 | allreduce: 2.00");
}

TEST(Timers, AScopeStopsAlsoAfterAnException) {
  FakeClock clock;
  Timers timers(clock.source());
  try {
    const TimerScope scope(timers("optimizer"));
    clock.pass(3);
    throw std::runtime_error("out of memory");
  } catch (const std::runtime_error&) {
  }
  EXPECT_FALSE(timers("optimizer").running());
  EXPECT_EQ(timers("optimizer").elapsed(), 3);
}

TEST(Timers, ARunningOneCanBeReadAndReset) {
  FakeClock clock;
  Timers timers(clock.source());
  Timer& timer = timers("data loader");
  timer.start();
  clock.pass(4);
  EXPECT_EQ(timer.elapsed(), 4);
  EXPECT_EQ(timer.mean(), 0) << "nothing is complete yet";
  timers.reset();
  EXPECT_EQ(timer.elapsed(), 0);
  clock.pass(1);
  timer.stop();
  EXPECT_EQ(timer.elapsed(), 1);
  EXPECT_EQ(timer.mean(), 1);
}

TEST(Timers, TheDeviceIsWaitedForAtBothEnds) {
  FakeClock clock;
  Timers timers(clock.source());
  timers("forward").start();
  EXPECT_EQ(clock.synchronizations, 1);
  timers("forward").stop();
  EXPECT_EQ(clock.synchronizations, 2);
  static_cast<void>(timers.line());
  EXPECT_EQ(clock.synchronizations, 2)
      << "nothing runs, so nothing to wait for";
}

TEST(Timers, MisuseIsSaid) {
  Timers timers;
  timers("forward").start();
  EXPECT_THAT(
      [&] { timers("forward").start(); },
      ThrowsMessage<InternalError>(
          HasSubstr("timer \"forward\" runs already")));
  EXPECT_THAT(
      [&] { timers("backward").stop(); },
      ThrowsMessage<InternalError>(
          HasSubstr("timer \"backward\" was not started")));
  EXPECT_THROW(static_cast<void>(timers.line(0)), InternalError);
}

TEST(Timers, TellRealTime) {
  Timers timers;
  {
    const TimerScope scope(timers("batch generator"));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GE(timers("batch generator").elapsed(), 5);
  EXPECT_LT(timers("batch generator").elapsed(), 5000);
}

// The texts are those of Megatron-LM's Timers for these times.
TEST(TimingReport, IsMegatrons) {
  const std::vector<RankTimes> timers = {
      {"forward-backward", {103.444, 101.2, 0}},
      {"never", {0, 0, 0}},
      {"optimizer", {0, 7.5, 0}}};
  EXPECT_EQ(
      timing_report("minmax", timers),
      "(min, max) time across ranks (ms):\n"
      "    forward-backward ...............................: (101.20, "
      "103.44)\n"
      "    optimizer ......................................: (7.50, 7.50)");
  EXPECT_EQ(
      timing_report("max", timers),
      "max time across ranks (ms):\n"
      "    forward-backward ...............................: 103.44\n"
      "    optimizer ......................................: 7.50");
  EXPECT_EQ(
      timing_report("all", timers),
      "times across ranks (ms):\n"
      "  forward-backward:\n"
      "     rank  0: 103.44\n"
      "     rank  1: 101.20\n"
      "  optimizer:\n"
      "     rank  1: 7.50");
  EXPECT_EQ(timing_report("minmax", {}), "");
}

} // namespace
} // namespace cairn::monitor::timers_test
