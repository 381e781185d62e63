#pragma once

#include "engine/build/model_parameters.h"
#include "engine/build/parameter_share.h"
#include "zero/internal/arriving_weights.h"
#include "zero/internal/flat_parameters.h"
#include "zero/internal/gradient_reducer.h"
#include "zero/internal/layout.h"
#include "zero/internal/parameter_gatherer.h"
#include "zero/internal/sharded_optimizer.h"

#include <cairn/engine/model.h>
#include <cairn/pipeline/executor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cairn::inline engine {

/// The model and everything that trains it, on this rank. Parts are made in the
/// order of the members; while an engine is made, the last ones are missing.
struct TrainedModel {
  /// Number of buckets that are trained: the first ones.
  int trainable_buckets() const;
  /// Learning rates of the parameter groups.
  std::vector<double> learning_rates() const;
  /// Bytes of parameters that are whole only while operators use them.
  std::int64_t gathered_bytes() const;
  /// True when some of the saved state has to be read from a disk first.
  bool rests_on_disk() const;
  /// A copy of a parameter, whole. All ranks call it.
  at::Tensor full_parameter(const std::string& name) const;
  /// Waits for updated weights that are still on their way, before their memory
  /// is read or written other than by operators.
  void settle();
  /// Brings the values that each rank has read from a checkpoint to the others.
  void publish_restored();

  Model model;
  ModelParameters parameters{}; ///< in the layout's order
  ModelShares shares{};
  std::unique_ptr<zero::Layout> layout{};
  std::unique_ptr<zero::FlatParameters> flat{};
  std::unique_ptr<zero::GradientReducer> reducer{};
  /// Null if step() waits for updated weights.
  std::unique_ptr<zero::ArrivingWeights> arriving{};
  std::unique_ptr<zero::ShardedOptimizer> optimizer{};
  /// Null if no parameter rests as shards.
  std::unique_ptr<zero::ParameterGatherer> gatherer{};
  /// Null if the model is on one stage.
  std::unique_ptr<pipeline::Executor> pipeline{};
  /// States per element; a guess for a client's optimizer.
  int optimizer_states = 2;
  bool clients_optimizer = false;
};

} // namespace cairn::engine
