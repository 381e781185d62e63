#include "base/internal/thread_pool.h"

#include <cairn/base/error.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace cairn::thread_pool_test {
namespace {

using Threads = ThreadPool::Options;

TEST(ThreadPool, GivesResultsAndExceptions) {
  ThreadPool pool(2);
  auto sum = pool.submit([] { return 2 + 3; });
  auto moved =
      pool.submit([value = std::make_unique<int>(7)] { return *value; });
  auto broken = pool.submit([]() -> int { throw DataError({.what = "torn"}); });
  EXPECT_EQ(sum.get(), 5);
  EXPECT_EQ(moved.get(), 7);
  EXPECT_THROW(broken.get(), DataError);
  EXPECT_EQ(pool.submit([] { return 1; }).get(), 1);
}

TEST(ThreadPool, RunsAsManyJobsAtOnceAsItHasThreads) {
  ThreadPool pool(3);
  std::latch all_there(3); // only passed when three run at the same time
  std::vector<std::future<void>> jobs;
  for (int i = 0; i < 3; ++i) {
    jobs.push_back(pool.submit([&] { all_there.arrive_and_wait(); }));
  }
  for (auto& job : jobs) {
    job.get();
  }
}

TEST(ThreadPool, KeepsTheOrderWithOneThread) {
  ThreadPool pool(1);
  std::vector<int> order;
  std::vector<std::future<void>> jobs;
  for (int i = 0; i < 100; ++i) {
    jobs.push_back(pool.submit([&order, i] { order.push_back(i); }));
  }
  jobs.back().get();
  std::vector<int> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(order, expected);
}

TEST(ThreadPool, FinishesWhatWasSubmitted) {
  std::atomic<int> finished = 0;
  std::vector<std::future<void>> jobs;
  {
    ThreadPool pool(2);
    for (int i = 0; i < 500; ++i) {
      jobs.push_back(pool.submit([&] { ++finished; }));
    }
  }
  EXPECT_EQ(finished, 500);
  for (auto& job : jobs) {
    EXPECT_NO_THROW(job.get());
  }
}

TEST(ThreadPool, StartsAndStopsWithoutWork) {
  for (std::size_t threads = 1; threads < 20; ++threads) {
    const ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
  }
  EXPECT_THROW(ThreadPool(0), InternalError);
  EXPECT_THROW(
      ThreadPool(Threads{.threads = 1, .queue_limit = 0}),
      InternalError);
}

TEST(ThreadPool, ABoundedQueueMakesTheProducerWait) {
  ThreadPool pool(Threads{.threads = 1, .queue_limit = 2});
  std::promise<void> gate;
  std::promise<void> started;
  auto holding = pool.submit([&] {
    started.set_value();
    gate.get_future().wait();
  });
  started.get_future().wait();
  auto second = pool.submit([] {});
  auto third = pool.submit([] {});
  std::atomic<bool> taken = false;
  auto producer = std::async(std::launch::async, [&] {
    auto fourth = pool.submit([] {});
    taken = true;
    fourth.get();
  });
  // The queue is full and its only thread held, so this cannot pass by luck of
  // timing: without the bound it would be ready almost at once.
  EXPECT_EQ(
      producer.wait_for(std::chrono::milliseconds(30)),
      std::future_status::timeout);
  EXPECT_FALSE(taken);
  gate.set_value();
  producer.get();
  EXPECT_TRUE(taken);
}

TEST(ParallelFor, CoversEveryIndexOnce) {
  ThreadPool pool(3);
  for (const std::size_t count : {0U, 1U, 2U, 7U, 100U, 1001U}) {
    for (const std::size_t grain : {0U, 1U, 3U, 64U, 5000U}) {
      std::vector<std::atomic<int>> visits(count);
      pool.parallel_for(count, grain, [&](std::size_t begin, std::size_t end) {
        EXPECT_LT(begin, end);
        EXPECT_LE(end - begin, std::max<std::size_t>(grain, 1));
        for (std::size_t i = begin; i < end; ++i) {
          ++visits[i];
        }
      });
      for (const auto& visit : visits) {
        ASSERT_EQ(visit, 1) << count << ' ' << grain;
      }
    }
  }
}

TEST(ParallelFor, UsesTheThreadsAndTheCaller) {
  ThreadPool pool(2);
  std::latch all_there(3);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool.parallel_for(3, 1, [&](std::size_t, std::size_t) {
    all_there.arrive_and_wait();
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 3);
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST(ParallelFor, ThrowsWhatABodyThrewAndStops) {
  ThreadPool pool(2);
  std::atomic<std::size_t> calls = 0;
  try {
    pool.parallel_for(100000, 1, [&](std::size_t begin, std::size_t) {
      ++calls;
      if (begin == 10) {
        throw std::runtime_error("at ten");
      }
      if (begin > 10) {
        // All calls together would take seconds, so that the one that throws is
        // never the last.
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "at ten");
  }
  EXPECT_LT(calls, 100000);
  pool.parallel_for(10, 1, [&](std::size_t, std::size_t) {});
}

TEST(ParallelFor, NestsInsideJobsOfTheSamePool) {
  for (const std::size_t limit : {std::size_t{1}, std::size_t{1000}}) {
    ThreadPool pool(Threads{.threads = 2, .queue_limit = limit});
    std::atomic<int> visits = 0;
    pool.parallel_for(8, 1, [&](std::size_t, std::size_t) {
      pool.parallel_for(8, 1, [&](std::size_t, std::size_t) {
        pool.parallel_for(8, 1, [&](std::size_t, std::size_t) { ++visits; });
      });
    });
    EXPECT_EQ(visits, 512);
  }
}

TEST(ParallelFor, FromManyThreadsAtOnce) {
  ThreadPool pool(2);
  std::atomic<int> visits = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        pool.parallel_for(20, 3, [&](std::size_t begin, std::size_t end) {
          visits += static_cast<int>(end - begin);
        });
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(visits, 8000);
}

} // namespace
} // namespace cairn::thread_pool_test
