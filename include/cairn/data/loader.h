#pragma once

#include <cairn/data/batch.h>
#include <cairn/data/samplers.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::data {

/// Makes batches ahead of the training loop (--num-workers), and returns them
/// in the sampler's order, whatever the number of threads.
///
///   Loader loader(
///       [sampler]() mutable { return sampler.next(); },
///       [&](std::span<const std::int64_t> indices, Batch& batch) {
///         collate(dataset, indices, allocate_host, batch);
///       },
///       {.workers = 2});
///   while (auto batch = loader.next()) …
///
/// At most workers * prefetch batches exist before they are asked for. The
/// destructor stops at once, also in the middle of an epoch; the last batch
/// returned says where to resume.
class Loader {
 public:
  /// Called by one thread at a time; returns nothing at the end of the data.
  using Sampler = std::function<std::optional<IndexBatch>()>;
  /// Called by several threads at the same time.
  using Collate =
      std::function<void(std::span<const std::int64_t> indices, Batch& batch)>;

  struct Options {
    std::size_t workers = 2;  ///< 0: batches are made on demand
    std::size_t prefetch = 2; ///< batches ahead per worker
  };

  Loader(Sampler sampler, Collate collate, Options options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch, or nothing at the end. Rethrows an exception from making
  /// the batch; that batch is lost, and the next call continues with the one
  /// after it.
  std::optional<Batch> next();

 private:
  struct Slot {
    bool ready = false;
    std::optional<Batch> batch; ///< empty: the end, or `error` is set
    std::exception_ptr error;
  };

  void work(const std::stop_token& stop);
  Slot make(IndexBatch indices) const;

  Sampler sampler_;
  Collate collate_;
  std::mutex mutex_;
  std::condition_variable_any room_;
  std::condition_variable ready_;
  std::vector<Slot> slots_; ///< a ring; batch n is in slot n % size
  std::uint64_t begun_ = 0;
  std::uint64_t handed_out_ = 0;
  bool at_end_ = false;
  /// Declared last, so that the threads are joined before the members they use
  /// are destroyed.
  std::vector<std::jthread> workers_;
};

} // namespace cairn::data
