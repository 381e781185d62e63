#pragma once

#include "base/internal/thread_pool.h"

#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace cairn::corpus {

/// Calls take(work(job)) for every job of `next`, in order. work() runs on the
/// pool's threads; `next`, `size` and `take` run on the caller's. `next`
/// returns an optional, empty at the end; `take` returns false to stop early.
/// To bound the memory, the sizes of the jobs under way add up to at most
/// `ahead`, or there is a single larger job.
template <typename Next, typename Size, typename Work, typename Take>
void ordered_work(
    ThreadPool& pool,
    std::uint64_t ahead,
    Next next,
    Size size,
    const Work& work,
    Take take) {
  using Job = typename std::invoke_result_t<Next>::value_type;
  using Result = std::invoke_result_t<const Work&, Job&&>;
  struct Begun {
    std::future<Result> result;
    std::uint64_t size;
  };
  // Jobs refer to `work`, so they must end before this function does, also when
  // it throws.
  struct Pending : std::deque<Begun> {
    ~Pending() {
      for (auto& each : *this) {
        each.result.wait();
      }
    }
  } pending;
  std::uint64_t on_their_way = 0;
  std::optional<Job> job = next();
  while (job || !pending.empty()) {
    if (job && (pending.empty() || on_their_way + size(*job) <= ahead)) {
      const std::uint64_t own_size = size(*job);
      // std::function must be copyable, so jobs travel by pointer.
      auto held = std::make_shared<Job>(std::move(*job));
      pending.push_back(
          {pool.submit([&work, held] { return work(std::move(*held)); }),
           own_size});
      on_their_way += own_size;
      job = next();
      continue;
    }
    Begun front = std::move(pending.front());
    pending.pop_front();
    Result result = front.result.get();
    on_their_way -= front.size;
    if (!take(std::move(result))) {
      return;
    }
  }
}

} // namespace cairn::corpus
