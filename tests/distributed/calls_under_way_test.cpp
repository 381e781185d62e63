#include "distributed/backends/calls_under_way.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace cairn::distributed::calls_under_way_test {
namespace {

using State = CallsUnderWay::State;
using namespace std::chrono_literals;

TEST(CallsUnderWay, AreFinishedBeforeTheCommunicatorCloses) {
  CallsUnderWay calls;
  calls.began(2);
  std::thread gpu([&] {
    std::this_thread::sleep_for(50ms);
    calls.part_finished();
    calls.part_finished();
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(calls.close(0ms), State::closed);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 40ms);
  gpu.join();
  EXPECT_FALSE(calls.give_up()) << "there is nothing left to give up";
}

TEST(CallsUnderWay, ThatNeverFinishAreGivenUpWhileSomebodyWaits) {
  CallsUnderWay calls;
  calls.began(1);
  std::thread watchdog([&] {
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(calls.give_up());
    EXPECT_FALSE(calls.give_up());
    std::this_thread::sleep_for(20ms);
    calls.given_up();
  });
  EXPECT_EQ(calls.close(10s), State::given_up);
  watchdog.join();
}

TEST(CallsUnderWay, AreNotWaitedForWhenGivingUpHangs) {
  CallsUnderWay calls;
  calls.began(1);
  EXPECT_TRUE(calls.give_up());
  EXPECT_EQ(calls.close(30ms), State::giving_up);
}

} // namespace
} // namespace cairn::distributed::calls_under_way_test
