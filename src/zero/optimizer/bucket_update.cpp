#include "zero/optimizer/bucket_update.h"

#include "optim/internal/newton_schulz.h"
#include "zero/internal/sum_of_squares.h"
#include "zero/internal/sum_over.h"
#include "zero/optimizer/over_threads.h"
#include "zero/optimizer/place_of.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <utility>

namespace cairn::zero {

/// The values that all functions of one update of one shard need.
struct BucketUpdate::Pass {
  const BucketShard& shard;
  std::span<const optim::GroupValues> groups;
  const optim::StepValues& step;
  optim::Place place;
  std::vector<Slice> slices;
};

BucketUpdate::BucketUpdate(
    const Layout& layout,
    const optim::Rule& rule,
    RankGroups owners)
    : layout_(layout), rule_(rule), owners_(std::move(owners)) {}

void BucketUpdate::update(
    const BucketShard& shard,
    std::span<const optim::GroupValues> groups,
    const optim::StepValues& step) const {
  Pass pass{shard, groups, step, place_of(shard.weights), {}};
  if (rule_.scope() == optim::Scope::elementwise) {
    update_elements(pass);
    return;
  }
  pass.slices = layout_.slices(shard.bucket, shard.range);
  update_parameters(pass);
}

void BucketUpdate::update_elements(const Pass& pass) const {
  for (const Segment& segment :
       layout_.segments(pass.shard.bucket, pass.shard.range)) {
    over_threads(
        stretch_of(pass.shard, segment.in_bucket),
        pass.place,
        [&](const kernels::Stretch& part, std::int64_t) {
          rule_.update(part, pass.groups[segment.group], pass.step, pass.place);
        });
  }
}

void BucketUpdate::update_parameters(const Pass& pass) const {
  // Zeros, because the owners exchange padding as well.
  const at::Tensor directions = at::zeros_like(pass.shard.weights);
  write_directions(pass, directions);
  if (rule_.scope() == optim::Scope::parameter_norms) {
    move_by_norms(pass, directions);
  } else {
    move_matrices(pass, directions);
  }
}

/// Makes the first pass. Parameters of another rule are done with it.
void BucketUpdate::write_directions(
    const Pass& pass,
    const at::Tensor& directions) const {
  for (const Slice& slice : pass.slices) {
    const optim::Rule& rule = rule_for(slice.parameter);
    float* direction =
        directions.data_ptr<float>() + (slice.offset - pass.shard.range.begin);
    over_threads(
        stretch_of(pass.shard, slice.in_bucket()),
        pass.place,
        [&](const kernels::Stretch& part, std::int64_t skip) {
          rule.update(
              part,
              pass.groups[layout_.parameters()[slice.parameter].group],
              pass.step,
              pass.place,
              direction + skip);
        });
  }
}

/// The norms of a parameter are added up by its owners, once per bucket.
void BucketUpdate::move_by_norms(const Pass& pass, const at::Tensor& directions)
    const {
  const at::Tensor squares = squares_of(pass, directions);
  for (const Slice& slice : pass.slices) {
    const double* sums =
        squares.const_data_ptr<double>() + 2 * member_of(slice);
    move(
        pass,
        slice,
        directions.const_data_ptr<float>() +
            (slice.offset - pass.shard.range.begin),
        {.weight_squares = sums[0], .direction_squares = sums[1]});
  }
}

/// The owners bring the directions of a bucket together; then each works on the
/// matrices that reach into its part, so a matrix within one part is computed
/// once.
void BucketUpdate::move_matrices(const Pass& pass, const at::Tensor& directions)
    const {
  const auto& members = layout_.buckets()[pass.shard.bucket].members;
  if (std::ranges::none_of(members, [&](const Placement& member) {
        return takes(member.parameter);
      })) {
    return;
  }
  const at::Tensor all = whole_bucket(pass.shard.bucket, directions);
  for (const Slice& slice : pass.slices) {
    if (!takes(slice.parameter)) {
      continue;
    }
    const ParameterSpec& spec = layout_.parameters()[slice.parameter];
    const std::int64_t rows = spec.shape[0];
    const std::int64_t columns = spec.elements() / rows;
    const Placement& home = layout_.placement_of(slice.parameter);
    const at::Tensor direction =
        optim::orthogonal(
            at::Tensor(all.narrow(0, home.offset, home.elements)
                           .view({rows, columns})),
            rule_.orthogonal_method())
            .contiguous()
            .view({-1});
    move(
        pass,
        slice,
        direction.const_data_ptr<float>() + slice.in_parameter.begin,
        {.rows = rows, .columns = columns});
  }
}

void BucketUpdate::move(
    const Pass& pass,
    const Slice& slice,
    const float* direction,
    const optim::WholeParameter& whole) const {
  over_threads(
      stretch_of(pass.shard, slice.in_bucket()),
      pass.place,
      [&](const kernels::Stretch& part, std::int64_t skip) {
        rule_.apply(
            part,
            direction + skip,
            whole,
            pass.groups[layout_.parameters()[slice.parameter].group],
            pass.step,
            pass.place);
      });
}

const optim::Rule& BucketUpdate::rule_for(int parameter) const {
  const ParameterSpec& spec = layout_.parameters()[parameter];
  return rule_.rule_for(spec.name, spec.shape);
}

std::int64_t BucketUpdate::member_of(const Slice& slice) const {
  const Bucket& bucket = layout_.buckets()[layout_.bucket_of(slice.parameter)];
  return &layout_.placement_of(slice.parameter) - bucket.members.data();
}

/// Sums of squares over all owners, [members, 2]: of weights and of directions.
at::Tensor BucketUpdate::squares_of(
    const Pass& pass,
    const at::Tensor& directions) const {
  const Bucket& bucket = layout_.buckets()[pass.shard.bucket];
  at::Tensor squares = at::zeros(
      {static_cast<std::int64_t>(bucket.members.size()), 2},
      at::kDouble);
  for (const Slice& slice : pass.slices) {
    const std::int64_t begin = slice.offset - pass.shard.range.begin;
    const std::int64_t size = slice.in_parameter.size();
    double* sums = squares.data_ptr<double>() + 2 * member_of(slice);
    sums[0] = sum_of_squares(pass.shard.weights.narrow(0, begin, size));
    sums[1] = sum_of_squares(directions.narrow(0, begin, size));
  }
  return sum_over(owners_.sharers(bucket), squares);
}

at::Tensor BucketUpdate::whole_bucket(int bucket, const at::Tensor& part)
    const {
  const distributed::ProcessGroup& owners =
      owners_.sharers(layout_.buckets()[bucket]);
  const bool through_gpu = owners.backend() == "nccl" && part.is_cpu();
  return owners.all_gather(through_gpu ? part.cuda() : part)
      .wait()
      .to(part.device());
}

} // namespace cairn::zero
