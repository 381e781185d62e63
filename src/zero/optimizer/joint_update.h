#pragma once

#include "kernels/internal/cuda/update_many.h"
#include "optim/internal/formula_constants.h"
#include "zero/internal/bucket_shard.h"
#include "zero/internal/device_table.h"
#include "zero/internal/layout.h"

#include <ATen/core/Tensor.h>
#include <cairn/optim/rule.h>

#include <span>
#include <vector>

namespace cairn::zero {

/// Updates the shards of all buckets, which rest on one GPU, with one launch of
/// an elementwise rule. The constants of the rule are in the GPU's memory.
class JointUpdate {
 public:
  /// Layout and rule outlive the update.
  JointUpdate(const Layout& layout, const optim::Rule& rule, at::Device device)
      : layout_(layout), rule_(rule), device_(device) {}

  /// Sends the constants of an update of every parameter group to the GPU.
  void send_numbers(
      std::span<const optim::GroupValues> groups,
      const optim::StepValues& step);
  /// Queues the launch, with the constants of send_numbers(). All shards have
  /// the same gradient_factor.
  void queue(const std::vector<BucketShard>& shards);

 private:
  const Layout& layout_;
  const optim::Rule& rule_;
  at::Device device_;
  DeviceTable<kernels::cuda::ManyStretchesRow> table_;
  /// The key of narrow states, then the formulas of all groups.
  at::Tensor numbers_;
  optim::FormulaConstants formula_; ///< of the last group
};

} // namespace cairn::zero
