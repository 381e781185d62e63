#pragma once

#include "zero/internal/flat_parameters.h"
#include "zero/internal/layout.h"
#include "zero/internal/rank_groups.h"
#include "zero/internal/sharded_optimizer.h"
#include "zero/optimizer/shard_access.h"

#include <torch/optim/optimizer.h>

#include <memory>
#include <string>
#include <vector>

namespace cairn::zero {

/// Runs a user's own torch::optim optimizer on flat shards. Its parameters are
/// replaced by stretches of this rank's fp32 weights, one per bucket and group.
/// An optimizer that treats all elements alike gives the same result on them.
class ClientOptimizer final : public ShardedOptimizer {
 public:
  struct Options {
    bool partition = false; ///< each rank updates a shard, not everything
    /// Weights, states and update are on the CPU, wherever the parameters are.
    bool on_cpu = false;
  };

  /// The layout's groups are the optimizer's groups, in order.
  ClientOptimizer(
      const Layout& layout,
      FlatParameters& parameters,
      std::shared_ptr<torch::optim::Optimizer> optimizer,
      RankGroups owners,
      Options options);

  std::string_view name() const override { return "client"; }
  std::vector<optim::GroupValues>& groups() override { return groups_; }
  void step(const GradientReducer& gradients, const GradientFactor& factor)
      override;
  void refresh_weights(int bucket) override;
  void publish_weights() override;
  void visit(bool write, const Visit& visit) override;
  std::vector<Held> held() override;
  void visit_numbers(bool write, const VisitNumber& visit) override;
  std::string not_visited() const override;
  std::int64_t steps() const override { return steps_; }
  void set_steps(std::int64_t steps) override { steps_ = steps; }
  ShardTier::Bytes bytes() const override;

 private:
  struct Stretch {
    int group = 0;
    Range in_shard;
    Range in_bucket;
    at::Tensor weights; ///< a leaf, because the optimizer wants one
  };
  struct Shard {
    at::Tensor weights;
    bool in_place = false; ///< the parameters are the fp32 weights themselves
    std::vector<Stretch> stretches;
  };

  torch::optim::OptimizerParamState* state_of(const Stretch& stretch) const;
  void make_states();
  void visit_states(
      int bucket,
      Stretch& stretch,
      bool write,
      const Visit& visit) const;

  const Layout& layout_;
  FlatParameters& parameters_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  ShardAccess access_;
  std::vector<Shard> shards_;
  std::vector<optim::GroupValues> groups_;
  std::int64_t steps_ = 0;
};

} // namespace cairn::zero
