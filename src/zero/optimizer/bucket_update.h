#pragma once

#include "zero/internal/bucket_shard.h"
#include "zero/internal/layout.h"
#include "zero/internal/rank_groups.h"

#include <cairn/optim/rule.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::zero {

/// Applies a rule to a rank's part of a bucket. Talks to the other owners where
/// the rule looks at whole parameters.
class BucketUpdate {
 public:
  /// `owners` are the ranks that share each bucket; groups of one where every
  /// rank updates all of it. Layout and rule outlive the update.
  BucketUpdate(
      const Layout& layout,
      const optim::Rule& rule,
      RankGroups owners);

  void update(
      const BucketShard& shard,
      std::span<const optim::GroupValues> groups,
      const optim::StepValues& step) const;

 private:
  struct Pass;
  void update_elements(const Pass& pass) const;
  void update_parameters(const Pass& pass) const;
  void write_directions(const Pass& pass, const at::Tensor& directions) const;
  void move_by_norms(const Pass& pass, const at::Tensor& directions) const;
  void move_matrices(const Pass& pass, const at::Tensor& directions) const;
  void move(
      const Pass& pass,
      const Slice& slice,
      const float* direction,
      const optim::WholeParameter& whole) const;

  const optim::Rule& rule_for(int parameter) const;
  bool takes(int parameter) const { return &rule_for(parameter) == &rule_; }
  std::int64_t member_of(const Slice& slice) const;
  at::Tensor squares_of(const Pass& pass, const at::Tensor& directions) const;
  at::Tensor whole_bucket(int bucket, const at::Tensor& part) const;

  const Layout& layout_;
  const optim::Rule& rule_;
  RankGroups owners_;
};

} // namespace cairn::zero
