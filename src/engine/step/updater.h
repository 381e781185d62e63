#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"
#include "engine/step/gradients.h"
#include "engine/step/overflow_policy.h"
#include "engine/step/progress.h"
#include "engine/step/repeated_work.h"

#include <cairn/monitor/timers.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::inline engine {

/// Ends an accumulation: finishes the gradients, looks at them, and updates the
/// weights unless they overflowed.
class Updater {
 public:
  /// The arguments outlive it, but for the options of the overflow.
  Updater(
      const Job& job,
      TrainedModel& trained,
      Progress& progress,
      const SliceOwner& owner,
      OverflowPolicy::Options overflow,
      monitor::Timers& timers);

  /// Makes one update of the weights, or skips it. All ranks call it.
  void run();
  /// run() with the work of the GPU recorded as a CUDA graph, and repeated from
  /// then on, where it is the same in every update. Called within the stream's
  /// run(), after an update without it. The stream outlives the updater's last
  /// call.
  void run_repeated(RecordingStream& stream);

  /// Has every update from now on show its gradients first: averaged over the
  /// ranks, without the loss scale, not clipped.
  void watch_gradients(VisitTensorSlice watch) { watch_ = std::move(watch); }
  void count_zeros(bool on) { counts_zeros_ = on; }
  /// Norm of the last update's gradient, before clipping. Waits for the GPU if
  /// the norm is under way.
  std::optional<double> gradient_norm() const;
  /// Zeros in the last update's gradient; empty unless counting is on.
  std::optional<std::int64_t> zeros() const { return zeros_; }

 private:
  /// Properties of updates that must be equal for a recorded update to be
  /// repeated.
  struct Kind {
    std::vector<const void*> gradients; ///< their places, by bucket
    double factor = 1;
    double limit = 0;
    bool operator==(const Kind&) const = default;
  };
  struct Recorded {
    Kind kind;
    at::Tensor norm; ///< the memory that it writes
    std::unique_ptr<RepeatedWork> work{};
  };

  bool checks_overflow() const;
  bool repeats();
  bool can_repeat();
  Kind kind() const;
  void repeat();
  void record(Kind kind);
  void end_update();
  bool update_ahead();
  void update(double norm);
  void move(const zero::GradientFactor& factor);

  const Job& job_;
  TrainedModel& trained_;
  Progress& progress_;
  Gradients gradients_;
  OverflowPolicy overflow_;
  monitor::Timers& timers_;
  VisitTensorSlice watch_; ///< may be empty
  bool counts_zeros_ = false;
  std::optional<double> norm_;
  at::Tensor norm_ahead_; ///< on the GPU, where the host has not looked yet
  std::optional<std::int64_t> zeros_;
  RecordingStream* recording_ = nullptr; ///< set while run_repeated() runs
  std::optional<Recorded> recorded_;
  bool said_why_not_ = false;
};

} // namespace cairn::engine
