#pragma once

#include "zero/internal/gradient_factor.h"
#include "zero/internal/gradient_reducer.h"
#include "zero/internal/layout.h"
#include "zero/internal/step_in_halves.h"
#include "zero/tiers/shard_tier.h"

#include <cairn/optim/parameter_groups.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::zero {

/// This rank's part of an optimizer: fp32 weights and states of its shard, and
/// the step that updates them and brings the new weights to everyone.
class ShardedOptimizer {
 public:
  virtual ~ShardedOptimizer() = default;

  virtual std::string_view name() const = 0;
  /// Values of the parameter groups, read at every step: a schedule writes
  /// here.
  virtual std::vector<optim::GroupValues>& groups() = 0;

  /// Makes one update; every gradient is multiplied by `factor`.
  virtual void step(
      const GradientReducer& gradients,
      const GradientFactor& factor) = 0;
  /// step() in two halves, the second of which can be recorded as a CUDA graph.
  /// Null where it cannot.
  virtual StepInHalves* in_halves() { return nullptr; }

  /// Takes the new values of a bucket's parameters over into the fp32 weights,
  /// after somebody else has changed some of them. Weights of unchanged
  /// parameters stay as exact as they are.
  virtual void refresh_weights(int bucket) = 0;
  /// Copies the fp32 weights into the parameters: the reverse of
  /// refresh_weights().
  virtual void publish_weights() = 0;

  /// Calls visit(bucket, range, name, tensor) for the fp32 weights ("weight")
  /// and every state. `range` is the part of the bucket that the tensor has.
  /// `write` keeps the values that the visitor leaves in the tensors.
  using Visit = std::function<
      void(int bucket, Range, std::string_view name, at::Tensor& values)>;
  virtual void visit(bool write, const Visit& visit) = 0;
  struct Held {
    int bucket = 0;
    Range range;
    std::string name;
    at::ScalarType type = at::kFloat;
  };
  /// The tensors that visit() passes, in its order, without loading them.
  virtual std::vector<Held> held() = 0;
  /// visit_numbers() is visit() for states that are one number for a parameter
  /// group.
  using VisitNumber =
      std::function<void(int group, std::string_view name, double& value)>;
  virtual void visit_numbers(bool /*write*/, const VisitNumber& /*visit*/) {}
  /// States that neither visit() nor visit_numbers() passes, named for people;
  /// a checkpoint lacks them.
  virtual std::string not_visited() const { return {}; }
  /// Number of updates so far, which bias corrections count. Set it before
  /// visit() writes.
  virtual std::int64_t steps() const = 0;
  virtual void set_steps(std::int64_t steps) = 0;

  virtual ShardTier::Bytes bytes() const = 0;
};

} // namespace cairn::zero
