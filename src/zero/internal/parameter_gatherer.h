#pragma once

#include "zero/gather/gather_order.h"
#include "zero/gather/operator_observer.h"
#include "zero/internal/flat_parameters.h"
#include "zero/internal/layout.h"
#include "zero/plan/use_trace.h"

#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

namespace cairn::zero {

/// Gathers parameters for stage 3. It makes a bucket whole just before an
/// operator uses it, fetches ahead the buckets that the last pass used next,
/// and releases those that are not needed soon.
///
/// All ranks run the same operators, so they take the same decisions here and
/// their collectives match; ranks that do not are told so. Training and
/// evaluation have a trace each.
class ParameterGatherer final : UseListener {
 public:
  /// Limits, in elements.
  struct Options {
    std::int64_t prefetch = 50'000'000;
    std::int64_t max_live = 1'000'000'000;
    /// Buckets whose next use is at most this far away are not released.
    std::int64_t max_reuse_distance = 1'000'000'000;
  };

  ParameterGatherer(
      const Layout& layout,
      FlatParameters& parameters,
      const Options& options);

  enum class Mode { training, evaluation };
  /// Ends a pass. In training a pass ends with backward, in evaluation when
  /// another forward begins.
  void finish_pass(Mode mode);
  void set_mode(Mode mode);
  /// Releases everything gathered, which is old once the shards have changed.
  void release_all();

  /// Keeps a bucket whole until unpin(), with exactly the resting values.
  void pin(int bucket);
  void unpin(int bucket);

  /// Throws an error that occurred while an operator ran: libtorch swallows it
  /// there. That parameters were recorded for a CUDA graph it throws every
  /// time: nobody sees the graph when it reads them where they no longer are.
  void rethrow();

  /// Begins to compare what the ranks have gathered; every rank calls it.
  void send_order();
  /// Throws on every rank if they have not gathered the same parameters in the
  /// same order. May wait for the GPU.
  void compare_orders();

  struct Counts {
    std::int64_t gathers = 0;
    std::int64_t on_demand = 0; ///< gathers that were not fetched ahead
    std::int64_t releases = 0;
    std::int64_t strayed_passes = 0;
    std::int64_t most_live = 0; ///< elements
  };
  Counts counts() const;

 private:
  void before_use(int bucket, std::int64_t offset) noexcept override;
  void after_use(int bucket) noexcept override;

  UseTrace& trace() { return traces_[static_cast<int>(mode_)]; }
  void refuse_recording(int parameter);
  void use(int bucket, int parameter);
  std::exception_ptr failure_of(int parameter) const;
  void begin(int bucket, int parameter, bool exact = false);
  int parameter_at(int bucket, std::int64_t offset) const;
  void make_room(std::int64_t elements, int for_bucket);
  void release_far(int current);
  void fetch_ahead();
  bool may_release(int bucket) const;
  void release(int bucket);

  const Layout& layout_;
  FlatParameters& parameters_;
  Options options_;
  mutable std::mutex mutex_;
  std::vector<UseTrace> traces_;
  Mode mode_ = Mode::training;
  std::vector<int> pins_;
  std::vector<int> recent_; ///< live buckets, the last used at the end
  std::int64_t live_ = 0;   ///< elements, those under way included
  Counts counts_;
  GatherOrder order_;
  std::exception_ptr failure_;
  std::exception_ptr recorded_; ///< why a CUDA graph was refused
  OperatorObserver observer_;   ///< last: it calls the members above
};

} // namespace cairn::zero
