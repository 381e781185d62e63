#include "corpus/pages/server_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>

namespace cairn::corpus::server_queue_test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

PageTask task(const std::string& address) {
  return {.address = address, .now = address};
}

TEST(ServerQueue, AServerHasOneTurnAtATimeAndAPause) {
  ServerQueue queue;
  queue.add(task("http://a.org/1"));
  queue.add(task("https://A.org:443/2"));
  queue.add(task("http://a.org:8080/3"));
  queue.finish();
  const auto first = queue.take();
  EXPECT_EQ(first->task.address, "http://a.org/1");
  const auto other = queue.take();
  EXPECT_EQ(other->task.address, "http://a.org:8080/3");
  queue.done(*other, milliseconds(0));
  constexpr milliseconds pause(30);
  auto second = std::async(std::launch::async, [&] {
    const auto turn = queue.take();
    return std::pair(turn->task.address, Clock::now());
  });
  const auto end = Clock::now();
  queue.done(*first, pause);
  const auto [address, when] = second.get();
  EXPECT_EQ(address, "https://A.org:443/2");
  EXPECT_GE(when - end, pause);
}

TEST(ServerQueue, EndsWhenTheLastTurnDoes) {
  ServerQueue queue;
  queue.add(task("http://a.org/1"));
  queue.finish();
  const auto first = queue.take();
  auto waiting = std::async(std::launch::async, [&] {
    const auto turn = queue.take();
    const auto address = turn->task.now;
    queue.done(*turn, milliseconds(0));
    return address;
  });
  PageTask redirected = first->task;
  redirected.now = "http://b.org/2";
  queue.done(*first, milliseconds(0), redirected);
  EXPECT_EQ(waiting.get(), "http://b.org/2");
  EXPECT_FALSE(queue.take());
  queue.stop();
  EXPECT_FALSE(queue.add(task("http://c.org")));
}

} // namespace
} // namespace cairn::corpus::server_queue_test
