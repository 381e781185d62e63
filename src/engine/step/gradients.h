#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"
#include "engine/save/slice_owner.h"
#include "zero/internal/sum_of_squares.h"

#include <cairn/checkpoints/slices.h>
#include <cairn/distributed/process_group.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cairn::inline engine {

/// Takes a slice of a named tensor.
using VisitTensorSlice =
    std::function<void(const checkpoints::TensorSlice& slice)>;

/// The gradients of an update: summed over the ranks, measured, shown. All
/// functions but factor() are for all ranks at once.
class Gradients {
 public:
  /// All ranks make it together. The arguments outlive it.
  Gradients(
      const Job& job,
      const TrainedModel& trained,
      const SliceOwner& owner);

  /// Waits for the sums.
  void finish();
  /// Sums over all ranks, in one message, what is known now: the squares, and
  /// whether a gradient came late. Adds gradients that did. Afterwards every
  /// rank that holds a parameter has all of its gradient.
  void measure();
  /// measure() where no gradient can have come late: it does not wait for the
  /// GPU, and can be recorded.
  void measure_on_time();
  /// The factor that turns the sums into the configured gradients: means, not
  /// multiplied by the loss scale.
  double factor(double loss_scale) const { return after_ / loss_scale; }
  /// The norm over all parameters and ranks that measure() found.
  double norm(double loss_scale) const;

  /// The norm, and the factor of gradients that are clipped by it, both on the
  /// GPU and perhaps still under way: a double and a float.
  struct Clipped {
    at::Tensor norm;
    at::Tensor factor;
  };
  /// Clips without waiting for the GPU; nothing where gradients of this rank or
  /// sums over the ranks are not on a GPU. `limit` is 0 where gradients are not
  /// clipped.
  std::optional<Clipped> clip_on_gpu(double loss_scale, double limit);
  /// True when clip_on_gpu() clips.
  bool stay_on_gpu() const;
  /// Number of elements that are zero, over all ranks.
  std::int64_t zeros() const;
  /// Name of the first parameter with an inf or nan in its gradient.
  std::string first_non_finite() const;
  /// Shows what this rank speaks for, multiplied by `factor`.
  void show(const VisitTensorSlice& visit, double factor) const;

 private:
  zero::Range held(int bucket) const;
  const ParameterShare& share_of(int bucket) const;
  bool sums_stay_on_gpu() const;
  at::Tensor own_squares(at::Device device);
  bool any_latecomers() const;
  void add_latecomers();
  std::string first_of_model(const std::string& text) const;

  const Job& job_;
  const TrainedModel& trained_;
  const SliceOwner& owner_;
  double after_;
  /// Buckets whose gradients are parts, here and on other ranks of the model.
  struct Shared {
    int bucket;
    distributed::ProcessGroup group;
  };
  std::vector<Shared> shared_;
  zero::SumOfSquares squares_of_all_;
  zero::SumOfSquares squares_of_experts_;
  /// The sum of squares and the number of ranks with latecomers, over all
  /// ranks; on the GPU if sums over ranks are made there.
  at::Tensor totals_;
};

} // namespace cairn::engine
