#pragma once

#include "engine/build/job.h"
#include "engine/build/trained_model.h"
#include "engine/save/slice_owner.h"
#include "engine/step/progress.h"

#include <cairn/checkpoints/slices.h>
#include <cairn/engine/saving.h>
#include <nlohmann/json_fwd.hpp>

namespace cairn::inline engine {

/// The state that training continues from, on this rank: slices of named
/// tensors and a few numbers. Names are the parameters' own, so nothing depends
/// on the number of ranks, the ZeRO stage or the buckets.
class TrainingState {
 public:
  /// The arguments outlive it.
  TrainingState(
      const Job& job,
      TrainedModel& trained,
      Progress& progress,
      const SliceOwner& owner);

  enum class Content {
    values,
    description ///< names and shapes, with tensors that have no memory
  };
  /// Hands the tensors that this rank saves to a sink.
  void put(checkpoints::Sink& sink, const SaveOptions& options, Content content)
      const;
  /// The numbers that are the same on all ranks.
  nlohmann::json numbers(const SaveOptions& options) const;

  /// Reads this rank's part. No other rank is asked, so that one may fail
  /// alone; TrainedModel::publish_restored() follows.
  void restore(
      const checkpoints::Source& source,
      const nlohmann::json& numbers,
      const LoadOptions& options);

 private:
  nlohmann::json next_values() const;
  nlohmann::json mesh_degrees() const;
  void put_numbers(checkpoints::Sink& sink) const;
  void put_generators(checkpoints::Sink& sink) const;
  void put_frozen(checkpoints::Sink& sink, Content content) const;
  void put_buffers(checkpoints::Sink& sink) const;
  void restore_optimizer(
      const checkpoints::Source& source,
      const LoadOptions& options);
  void restore_optimizer_steps(const nlohmann::json& numbers);
  void restore_frozen(const checkpoints::Source& source);
  void restore_buffers(const checkpoints::Source& source);
  void restore_generators(
      const checkpoints::Source& source,
      const nlohmann::json& numbers);

  const Job& job_;
  TrainedModel& trained_;
  Progress& progress_;
  const SliceOwner& owner_;
};

} // namespace cairn::engine
