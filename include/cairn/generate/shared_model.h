#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/models/load_model.h>

#include <memory>
#include <optional>

namespace cairn::generate {

enum class WeightType; // text_batch.h has it

/// How ranks share a model: `tensor` ranks divide every layer, `stages` of them
/// follow each other.
struct SharedModelOptions {
  int tensor = 1;
  int stages = 1;
  at::ScalarType dtype = at::kFloat; ///< of parameters, as they are read
  /// Numbers of the linear layers; unset: as `dtype` says.
  std::optional<WeightType> weights{};
};

/// A GPT or Llama whose layers and heads are divided over the ranks of a job,
/// on their CPUs. A rank reads only its own part of the weights, and keeps the
/// keys and values of its own layers and heads. Copies are the same model.
///
///   const SharedModel model(world, stored, {.tensor = 2, .stages = 2});
///   if (world.rank() > 0) {
///     model.follow();
///   } else {
///     TextBatch batch(model, {});
///     …
///   }
///
/// The other ranks learn what to compute from rank 0, which says at least that
/// it is there, once a second. So a lost rank is noticed also while there is
/// nothing to compute. When the last copy and the last TextBatch of rank 0 go,
/// the others return from follow().
class SharedModel {
 public:
  /// Every rank of the world makes the model. Throws ConfigError for a model
  /// that cannot be shared so, CheckpointError for weights that cannot be read.
  SharedModel(
      const distributed::World& world,
      const models::StoredModel& stored,
      const SharedModelOptions& options);

  const models::ModelDescription& description() const;

  /// Computes what rank 0 says, until rank 0 is done. Throws CommError when the
  /// job has failed. Rank 0 itself does not call it.
  void follow() const;

  /// True on rank 0 when a rank was lost; texts cannot be continued then.
  bool has_failed() const;
  /// Throws the CommError that says why.
  void throw_if_failed() const;

 private:
  friend class TextModel;
  class Core;
  class Leading;
  std::shared_ptr<Core> core_;
};

} // namespace cairn::generate
