#include "distributed/backends/operation.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::distributed::operation_test {
namespace {

std::shared_ptr<Operation> operation() {
  return std::make_shared<Operation>(
      CollectiveRecord{},
      std::make_shared<const std::vector<int>>(2),
      Operation::Clock::time_point::max(),
      [](Operation& it, const std::string&) { it.succeed(); });
}

TEST(Operation, AbortsTheBackendWhenItFails) {
  const auto it = operation();
  int aborted = 0;
  it->on_abort([&] { ++aborted; });
  it->abort_if_failed();
  EXPECT_EQ(aborted, 0);
  it->fail(std::make_shared<const CommError>(Problem{.what = "gone"}));
  EXPECT_EQ(aborted, 0);
  EXPECT_THROW(it->wait(), CommError);
  it->abort_if_failed();
  it->abort_if_failed();
  EXPECT_EQ(aborted, 1);
}

TEST(Operation, AbortsAtOnceABackendThatIsTooLate) {
  const auto it = operation();
  it->fail(std::make_shared<const CommError>(Problem{.what = "gone"}));
  int aborted = 0;
  it->on_abort([&] { ++aborted; });
  EXPECT_EQ(aborted, 1);
}

TEST(Operation, ThatEndedWellIsNotAborted) {
  const auto it = operation();
  it->part_ended("");
  int aborted = 0;
  it->on_abort([&] { ++aborted; });
  it->fail(std::make_shared<const CommError>(Problem{.what = "gone"}));
  it->abort_if_failed();
  EXPECT_EQ(aborted, 0);
  it->wait();
}

} // namespace
} // namespace cairn::distributed::operation_test
