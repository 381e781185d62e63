#pragma once

#include <cairn/base/thread_pool.h>

#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace cairn::corpus {

/// Calls take(work(job)) for every job of `next` in order, with work() on the
/// pool's threads and the other three here. `next` returns an optional, empty
/// at the end; `take` returns false to stop early. Jobs of size(job) `ahead` in
/// all are on their way at most, or a single one that is larger, which bounds
/// the memory.
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
  // Jobs refer to `work`: whatever is thrown here, they end before it does.
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
      // std::function wants to copy its callable: jobs travel by pointer.
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
