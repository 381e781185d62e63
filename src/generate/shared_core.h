#pragma once

#include "generate/decoder_weights.h"
#include "generate/internal/model_part.h"
#include "generate/kept_texts.h"
#include "generate/rank_links.h"
#include "generate/rank_order.h"

#include <cairn/distributed/process_mesh.h>
#include <cairn/generate/shared_model.h>
#include <cairn/generate/text_batch.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace cairn::generate {

/// The state that copies of a SharedModel have in common.
class SharedModel::Core {
 public:
  Core(
      const distributed::World& world,
      const models::StoredModel& stored,
      const SharedModelOptions& options);
  /// On rank 0, tells the others that there is nothing more to do.
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  const models::ModelDescription& description() const { return description_; }
  const ModelPart& part() const { return part_; }
  const std::shared_ptr<const DecoderWeights>& weights() const {
    return weights_;
  }
  const RankLinks& links() const { return links_; }
  std::optional<WeightType> weight_type() const { return weight_type_; }
  /// The shape of a cache that has room on every rank.
  CacheShape cache_of(const TextBatchOptions& options) const;
  CacheShape cache_of(std::int64_t page_tokens, std::int64_t most_pages) const;
  std::int64_t next_decoder() { return next_decoder_++; }

  /// Rank 0: tells the others the order and does its own part of it, which is
  /// `own`. One thread at a time has the ranks. After an exception nobody has
  /// them any more.
  template <class Own>
  auto together(const RankOrder& order, const Own& own) {
    const std::lock_guard lock(mutex_);
    throw_if_failed();
    try {
      say(order);
      return own();
    } catch (...) {
      fail(std::current_exception());
      throw;
    }
  }

  /// The other ranks: the next order.
  RankOrder hear() const;
  /// Ends the job: this rank cannot go on.
  void fail(const std::exception_ptr& error) noexcept;

  bool has_failed() const { return failed_; }
  void throw_if_failed() const;

 private:
  using Clock = std::chrono::steady_clock;

  void say(const RankOrder& order);
  void keep_in_touch(const std::stop_token& stop);

  distributed::ProcessGroup world_;
  models::ModelDescription description_;
  ModelPart part_;
  RankLinks links_;
  std::optional<WeightType> weight_type_;
  std::shared_ptr<const DecoderWeights> weights_;
  std::int64_t tokens_that_fit_ = 0;
  std::atomic<std::int64_t> next_decoder_ = 0;

  std::mutex mutex_; ///< held by who has the ranks
  Clock::time_point last_order_ = Clock::now();
  std::atomic<bool> failed_ = false;
  mutable std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::jthread beat_; ///< last: it uses the others
};

} // namespace cairn::generate
