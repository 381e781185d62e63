#pragma once

#include <cairn/base/thread_pool.h>

#include <cstddef>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace cairn::corpus {

/// Calls take(work(job)) for every job of `next` in order, with work() on the
/// pool's threads and the other two here. `next` returns an optional, empty at
/// the end; `take` returns false to stop early. At most `ahead` jobs are on
/// their way, which bounds the memory.
template <typename Next, typename Work, typename Take>
void ordered_work(
    ThreadPool& pool,
    std::size_t ahead,
    Next next,
    const Work& work,
    Take take) {
  using Job = typename std::invoke_result_t<Next>::value_type;
  using Result = std::invoke_result_t<const Work&, Job&&>;
  // Jobs refer to `work`: whatever is thrown here, they end before it does.
  struct Pending : std::deque<std::future<Result>> {
    ~Pending() {
      for (auto& each : *this) {
        each.wait();
      }
    }
  } pending;
  bool more = true;
  while (true) {
    while (more && pending.size() < ahead) {
      std::optional<Job> job = next();
      if (!job) {
        more = false;
        break;
      }
      // std::function wants to copy its callable: jobs travel by pointer.
      auto held = std::make_shared<Job>(std::move(*job));
      pending.push_back(
          pool.submit([&work, held] { return work(std::move(*held)); }));
    }
    if (pending.empty()) {
      return;
    }
    std::future<Result> front = std::move(pending.front());
    pending.pop_front();
    Result result = front.get();
    if (!take(std::move(result))) {
      return;
    }
  }
}

} // namespace cairn::corpus
