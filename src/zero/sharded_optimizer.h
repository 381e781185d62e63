#pragma once

#include "zero/gradient_reducer.h"
#include "zero/shard_tier.h"

#include <cairn/optim/group_values.h>
#include <cairn/zero/layout.h>

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
  /// Read at every step: a schedule writes here.
  virtual std::vector<optim::GroupValues>& groups() = 0;

  /// One update; every gradient counts `gradient_factor` times.
  virtual void step(
      const GradientReducer& gradients,
      double gradient_factor) = 0;

  /// Somebody else changed some of a bucket's parameters: the fp32 weights take
  /// the new values over, and stay as exact as they are elsewhere.
  virtual void refresh_weights(int bucket) = 0;
  /// The other way: brings the fp32 weights into the parameters.
  virtual void publish_weights() = 0;

  /// Calls visit(bucket, range, name, tensor) for the fp32 weights ("weight")
  /// and every state, the range being what of the bucket the tensor has; with
  /// `write`, what that leaves in the tensors is kept.
  using Visit = std::function<
      void(int bucket, Range, std::string_view name, at::Tensor& values)>;
  virtual void visit(bool write, const Visit& visit) = 0;
  struct Held {
    int bucket = 0;
    Range range;
    std::string name;
    at::ScalarType type = at::kFloat;
  };
  /// What visit() comes by, in its order, without bringing it near.
  virtual std::vector<Held> held() = 0;
  /// The same for states that are one number for a parameter group.
  using VisitNumber =
      std::function<void(int group, std::string_view name, double& value)>;
  virtual void visit_numbers(bool /*write*/, const VisitNumber& /*visit*/) {}
  /// States that neither comes by, for people; a checkpoint lacks them.
  virtual std::string not_visited() const { return {}; }
  /// Updates so far, which bias corrections count; to be set before visit()
  /// writes.
  virtual std::int64_t steps() const = 0;
  virtual void set_steps(std::int64_t steps) = 0;

  virtual ShardTier::Bytes bytes() const = 0;
};

} // namespace cairn::zero
