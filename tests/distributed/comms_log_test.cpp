#include "distributed/internal/comms_log.h"

#include "support/run_ranks.h"

#include <ATen/ops/ones.h>
#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

// Sizes and times of calls between ranks.

namespace cairn::distributed {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(CommsLog, ComputesBandwidthsFromSizesAndTimes) {
  CommsLog log({});
  // 1 MB in 1 ms: 8 Gb/s; of four ranks each sends 1.5 MB.
  const CommsLog::Call call{
      .operation = "all_reduce",
      .bytes = 1'000'000,
      .sent = bytes_sent("all_reduce", 1'000'000, 4),
      .seconds = 1e-3};
  log.add(call);
  log.add(call);
  EXPECT_THAT(
      log.summary(),
      ContainsRegex("all_reduce\n +976.56 KB +2 +2.00 +1.000 +8 +12$"));
}

TEST(CommsLog, TakesOnlyTheKindsThatWereAskedFor) {
  CommsLog log(
      {.all = false,
       .operations = {"all_gather_into_tensor"},
       .with_site = true});
  log.add({.operation = "all_reduce", .site = "a.cpp:1", .bytes = 8});
  log.add({.operation = "all_gather", .site = "b.cpp:2", .bytes = 8});
  EXPECT_THAT(
      log.summary(),
      AllOf(HasSubstr("all_gather | b.cpp:2\n"), Not(HasSubstr("all_reduce"))));
  EXPECT_THROW(
      CommsLog({.all = false, .operations = {"reduce_all"}}),
      ConfigError);
}

TEST(CommsLog, HasTheCallsOfRealRanksUntilItIsTakenAway) {
  const auto outcomes =
      testing::run_ranks({.ranks = 2}, [](const World& world) {
        const ProcessGroup& group = world.group();
        const auto log = std::make_shared<CommsLog>(CommsLog::Options{
            .verbose = world.rank() == 0,
            .logger = Logger({.rank = 0, .world_size = 2})});
        group.all_reduce(at::ones({10})).wait(); // before the log
        log_calls(world, log);
        for (int i = 0; i < 3; ++i) {
          group.all_reduce(at::ones({256})).wait();
        }
        group.all_gather(at::ones({128})).wait();
        if (world.rank() == 0) {
          group.send(at::ones({2}), 1).wait();
        } else {
          at::Tensor x = at::ones({2});
          group.recv(x, 0).wait();
        }
        log_calls(world, nullptr);
        group.all_reduce(at::ones({10})).wait(); // after it
        const std::string summary = log->summary();
        // Each size once, with as many calls as were made, and their times.
        EXPECT_THAT(
            summary,
            ContainsRegex(
                "all_reduce\n +1.00 KB +3 +[0-9.]+ +[0-9.]+ +[0-9.]+"));
        EXPECT_THAT(
            summary,
            ContainsRegex("all_gather\n +1.00 KB +1 +[0-9.]+"));
        EXPECT_THAT(
            summary,
            ContainsRegex(
                world.rank() == 0 ? "send\n +8 B +1 +" : "recv\n +8 B +1 +"));
        EXPECT_THAT(summary, Not(HasSubstr("40 B")));
      });
  EXPECT_THAT(
      outcomes[0].log,
      ContainsRegex("comm op: all_reduce \\| time \\(ms\\): [0-9.]+ \\| msg "
                    "size: 1.00 KB \\| algbw"));
  EXPECT_THAT(outcomes[1].log, Not(HasSubstr("comm op")));
}

} // namespace
} // namespace cairn::distributed
