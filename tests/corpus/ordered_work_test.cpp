#include "corpus/output/ordered_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::corpus::ordered_work_test {
namespace {

/// Runs jobs that are their own size; returns the most that was under way.
std::uint64_t most_ahead(
    std::uint64_t ahead,
    const std::vector<std::uint64_t>& jobs) {
  ThreadPool pool(2);
  std::size_t begun = 0;
  std::uint64_t given = 0;
  std::uint64_t taken = 0;
  std::uint64_t most = 0;
  std::vector<std::uint64_t> results;
  ordered_work(
      pool,
      ahead,
      [&]() -> std::optional<std::uint64_t> {
        // All jobs given before are under way by now, unless they were taken.
        most = std::max(most, given - taken);
        if (begun == jobs.size()) {
          return std::nullopt;
        }
        given += jobs[begun];
        return jobs[begun++];
      },
      [](std::uint64_t job) { return job; },
      [](std::uint64_t job) { return job; },
      [&](std::uint64_t result) {
        results.push_back(result);
        taken += result;
        return true;
      });
  EXPECT_EQ(results, jobs);
  return most;
}

TEST(OrderedWork, BoundsWhatIsOnItsWay) {
  EXPECT_EQ(most_ahead(10, std::vector<std::uint64_t>(50, 2)), 10U);
  EXPECT_EQ(most_ahead(10, {3, 3, 3, 3, 3}), 9U);
  EXPECT_EQ(most_ahead(100, {3, 3, 3}), 9U);
}

TEST(OrderedWork, AJobThatIsTooLargeGoesAlone) {
  EXPECT_EQ(most_ahead(10, {2, 50, 2, 2}), 50U);
  EXPECT_EQ(most_ahead(0, {1, 1, 1}), 1U);
}

TEST(OrderedWork, StopsEarly) {
  ThreadPool pool(2);
  int taken = 0;
  ordered_work(
      pool,
      4,
      [] { return std::optional<int>(1); },
      [](int) { return 1; },
      [](int job) { return job; },
      [&](int) { return ++taken < 3; });
  EXPECT_EQ(taken, 3);
}

} // namespace
} // namespace cairn::corpus::ordered_work_test
