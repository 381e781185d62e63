#include "distributed/internal/agreement.h"
#include "support/error_text.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace cairn::distributed::agreement_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Longer than a test may take: a rank that waits so long has failed.
constexpr std::chrono::minutes ages{10};

std::string joined_texts(const std::vector<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, "+"));
}

TEST(Agreement, EveryoneGetsTheAnswerOfRankZero) {
  cairn::testing::run_ranks(3, [](const ProcessGroup& group) {
    Agreement agree(group, "test");
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(
          agree("it", std::to_string(group.rank() + i), joined_texts, ages),
          fmt::format("{}+{}+{}", i, i + 1, i + 2));
    }
  });
}

TEST(Agreement, WhoPassesByIsNamedAtOnceWithWhatItCalled) {
  for (const int alone : {0, 1}) {
    cairn::testing::run_ranks(2, [&](const ProcessGroup& group) {
      Agreement agree(group, "test");
      group.barrier();
      if (group.rank() == alone) {
        EXPECT_THAT(
            error_text<CommError>(
                [&] { agree("the meeting", "", joined_texts, ages, {group}); }),
            AllOf(
                HasSubstr(fmt::format(
                    "rank {} did not come to the meeting, but went on to "
                    "all_reduce #2 of group \"world\" at agreement_test.cpp:",
                    1 - alone)),
                HasSubstr("all 2 ranks of the group must take part")));
      }
      group.all_reduce(at::ones({1})).wait();
    });
  }
}

/// A rank may be late if it comes at all, and collectives that have no order
/// with the meeting may run on.
TEST(Agreement, WhoComesLateIsWaitedFor) {
  cairn::testing::run_ranks(2, [](const ProcessGroup& group) {
    const ProcessGroup other = group.subgroup({0, 1}, "other");
    Agreement agree(group, "test");
    if (group.rank() == 1) {
      const Pending early = other.all_reduce(at::ones({1}));
      std::this_thread::sleep_for(std::chrono::seconds(1));
      EXPECT_EQ(agree("it", "b", joined_texts, ages, {group}), "a+b");
    } else {
      EXPECT_EQ(agree("it", "a", joined_texts, ages, {group}), "a+b");
      other.all_reduce(at::ones({1})).wait();
    }
  });
}

TEST(Agreement, NobodyIsWaitedForWithoutEnd) {
  cairn::testing::run_ranks(2, [](const ProcessGroup& group) {
    Agreement agree(group, "test");
    if (group.rank() == 0) {
      EXPECT_THAT(
          error_text<CommError>([&] {
            agree(
                "the meeting",
                "",
                joined_texts,
                std::chrono::milliseconds(300));
          }),
          HasSubstr("rank 1 did not come to the meeting, not within 0.3 s"));
    }
    group.barrier();
  });
}

} // namespace
} // namespace cairn::distributed::agreement_test
