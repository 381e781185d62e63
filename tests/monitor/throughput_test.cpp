#include "monitor/internal/throughput.h"
#include "monitor/fake_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::monitor::throughput_test {
namespace {

using ::testing::ElementsAre;
using Ends = ThroughputTimer::Ends;

// The lines below were printed by DeepSpeed's ThroughputTimer on the same
// times.
TEST(Throughput, AgreesWithDeepSpeed) {
  FakeClock clock;
  ThroughputTimer timer(
      {.batch_size = 8, .steps_per_output = 2, .time = clock.source()});
  std::vector<std::string> lines;
  int count = 0;
  for (int step = 0; step < 8; ++step) {
    for (const Ends ends : {Ends::micro_step, Ends::global_step}) {
      timer.start();
      clock.pass(250 * (1 + count++ % 3));
      if (const auto throughput = timer.stop(ends)) {
        lines.push_back(throughput_line(
            *throughput,
            {.bytes = 4'670'000'000, .peak_bytes = 10'760'000'000}));
      }
      clock.pass(1000); // outside, so not counted
    }
    if (step == 4) {
      timer.next_epoch();
    }
  }
  EXPECT_THAT(
      lines,
      ElementsAre(
          "epoch=0/micro_step=8/global_step=4, RunningAvgSamplesPerSec=8.0, "
          "CurrSamplesPerSec=10.666652444463407, MemAllocated=4.35GB, "
          "MaxMemAllocated=10.02GB",
          "epoch=1/micro_step=2/global_step=6, "
          "RunningAvgSamplesPerSec=7.529411764705882, "
          "CurrSamplesPerSec=6.399994880004097, MemAllocated=4.35GB, "
          "MaxMemAllocated=10.02GB",
          "epoch=1/micro_step=6/global_step=8, RunningAvgSamplesPerSec=8.0, "
          "CurrSamplesPerSec=7.9999920000080005, MemAllocated=4.35GB, "
          "MaxMemAllocated=10.02GB"));
}

TEST(Throughput, TheFirstStepsAreNotTimed) {
  FakeClock clock;
  ThroughputTimer timer(
      {.batch_size = 3, .steps_per_output = 5, .time = clock.source()});
  std::vector<std::string> lines;
  for (int step = 0; step < 10; ++step) {
    timer.start();
    clock.pass(step < 2 ? 60'000 : 125);
    if (const auto throughput = timer.stop(Ends::global_step)) {
      lines.push_back(throughput_line(*throughput, {.bytes = 1 << 30}));
    }
  }
  EXPECT_THAT(
      lines,
      ElementsAre(
          "epoch=0/micro_step=5/global_step=5, RunningAvgSamplesPerSec=24.0, "
          "CurrSamplesPerSec=23.99980800153599, MemAllocated=1.0GB, "
          "MaxMemAllocated=0.0GB",
          "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=24.0, "
          "CurrSamplesPerSec=23.99980800153599, MemAllocated=1.0GB, "
          "MaxMemAllocated=0.0GB"));
  // The device is waited for only where the clock is read.
  EXPECT_EQ(clock.synchronizations, 2 * 8);
}

TEST(Throughput, IsSilentUnlessAsked) {
  FakeClock clock;
  ThroughputTimer timer({.batch_size = 1, .time = clock.source()});
  for (int step = 0; step < 20; ++step) {
    timer.start();
    clock.pass(1);
    EXPECT_FALSE(timer.stop(Ends::global_step));
    EXPECT_FALSE(timer.stop(Ends::global_step)) << "was not started";
  }
}

} // namespace
} // namespace cairn::monitor::throughput_test
