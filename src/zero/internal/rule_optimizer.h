#pragma once

#include "zero/internal/arriving_weights.h"
#include "zero/internal/flat_parameters.h"
#include "zero/internal/gradient_reducer.h"
#include "zero/internal/layout.h"
#include "zero/internal/rank_groups.h"
#include "zero/internal/sharded_optimizer.h"
#include "zero/internal/state_types.h"
#include "zero/optimizer/bucket_update.h"
#include "zero/optimizer/joint_update.h"
#include "zero/optimizer/shard_access.h"
#include "zero/reduce/side_copies.h"
#include "zero/tiers/shard_tier.h"

#include <cairn/optim/rule.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace cairn::zero {

/// Runs one of our own rules on flat shards.
class RuleOptimizer final : public ShardedOptimizer, StepInHalves {
 public:
  struct Options {
    bool partition = false; ///< each rank updates a shard, not everything
    /// States and update are on the CPU, wherever the parameters are.
    bool on_cpu = false;
    bool pin = true;    ///< page-locks host memory that the device copies from
    StateTypes types{}; ///< narrow ones are for elementwise rules
    std::vector<optim::GroupValues> groups;
    /// Holder of updated weights that are still on their way when step()
    /// returns. Null: step() waits for them.
    ArrivingWeights* arriving = nullptr;
    /// Updates run beside the device's other work and are waited for as
    /// `arriving` weights, also before gradients are written again.
    bool beside = false;
  };

  RuleOptimizer(
      const Layout& layout,
      FlatParameters& parameters,
      std::unique_ptr<optim::Rule> rule,
      RankGroups owners,
      Options options,
      std::unique_ptr<ShardTier> tier);

  std::string_view name() const override { return rule_->name(); }
  std::vector<optim::GroupValues>& groups() override { return options_.groups; }
  void step(const GradientReducer& gradients, const GradientFactor& factor)
      override;
  StepInHalves* in_halves() override { return joint_ ? this : nullptr; }
  void refresh_weights(int bucket) override;
  void publish_weights() override;
  void visit(bool write, const Visit& visit) override;
  std::vector<Held> held() override;
  std::int64_t steps() const override { return steps_; }
  void set_steps(std::int64_t steps) override { steps_ = steps; }
  ShardTier::Bytes bytes() const override;

 private:
  void send_numbers(double factor) override;
  void queue_update(
      const GradientReducer& gradients,
      const GradientFactor& factor) override;
  bool updates_jointly() const;
  at::Tensor parameters_to_write(int bucket, const at::Tensor& weights);
  BucketShard shard_of(
      int bucket,
      const ShardTensors& tensors,
      const at::Tensor& to,
      const GradientReducer& gradients,
      const GradientFactor& factor);
  void publish_when_there(
      int bucket,
      std::vector<std::shared_ptr<distributed::Pending>>& publishing);
  /// Waits for updates that run beside, and for weights on their way.
  void settle();
  void update_all(
      const GradientReducer& gradients,
      const GradientFactor& factor);
  at::Tensor weights_of(const at::Tensor& parameters) const;
  bool splits_weights(const at::Tensor& parameters) const;
  ShardTensors first_tensors(int bucket, const at::Tensor& parameters) const;
  at::Tensor kernel_output(const at::Tensor& to, const at::Tensor& weights);
  std::vector<int> trainable_in_forward_order() const;

  const Layout& layout_;
  FlatParameters& parameters_;
  std::unique_ptr<optim::Rule> rule_;
  ShardAccess access_;
  Options options_;
  std::unique_ptr<ShardTier> tier_;
  BucketUpdate update_;
  /// Null where buckets are updated one by one.
  std::unique_ptr<JointUpdate> joint_;
  /// True for each bucket whose parameters are the fp32 weights themselves.
  std::vector<bool> in_place_;
  /// True for each bucket whose weights are its parameters and remainders.
  std::vector<bool> split_;
  SideCopies copies_;
  /// 16-bit weights on their way to the device: one buffer is filled while the
  /// other leaves.
  struct Staging {
    at::Tensor memory;
    CopyMark gone{};
  };
  std::array<Staging, 2> staging_;
  std::size_t next_staging_ = 0;
  std::int64_t steps_ = 0;
};

} // namespace cairn::zero
