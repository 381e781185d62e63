#include "zero/bucket_update.h"
#include "zero/over_threads.h"
#include "zero/place_of.h"
#include "zero/sum_of_squares.h"
#include "zero/sum_over.h"

#include <ATen/Functions.h>
#include <cairn/optim/lamb.h>

#include <utility>

namespace cairn::zero {

namespace {

/// LAMB's trust ratio of a parameter needs its norms, which its owners add up
/// once per bucket.
class LambUpdate final : public BucketUpdate {
 public:
  LambUpdate(const Layout& layout, const optim::Lamb& lamb, RankGroups owners)
      : layout_(layout), lamb_(lamb), owners_(std::move(owners)) {}

  void update(
      const BucketShard& shard,
      std::span<const optim::GroupValues> groups,
      const optim::StepValues& step) const override {
    const optim::Place place = place_of(shard.weights);
    const at::Tensor direction = at::empty_like(shard.weights);
    const auto slices = layout_.slices(shard.bucket, shard.range);
    const auto values = [&](const Slice& slice) -> const optim::GroupValues& {
      return groups[layout_.parameters()[slice.parameter].group];
    };
    const auto direction_of = [&](const Slice& slice) {
      return direction.data_ptr<float>() + (slice.offset - shard.range.begin);
    };
    for (const Slice& slice : slices) {
      over_threads(
          stretch_of(shard, slice.in_bucket()),
          place,
          [&](const kernels::Stretch& part, std::int64_t skip) {
            lamb_.direction(
                part,
                values(slice),
                step,
                place,
                direction_of(slice) + skip);
          });
    }
    const at::Tensor squares = squares_of(shard, slices, direction);
    for (const Slice& slice : slices) {
      const double* sums =
          squares.const_data_ptr<double>() + 2 * member_of(slice);
      const double trust = lamb_.trust_ratio(sums[0], sums[1]);
      over_threads(
          stretch_of(shard, slice.in_bucket()),
          place,
          [&](const kernels::Stretch& part, std::int64_t skip) {
            lamb_.apply(
                part,
                direction_of(slice) + skip,
                trust,
                values(slice),
                step,
                place);
          });
    }
  }

 private:
  std::int64_t member_of(const Slice& slice) const {
    const Bucket& bucket =
        layout_.buckets()[layout_.bucket_of(slice.parameter)];
    return &layout_.placement_of(slice.parameter) - bucket.members.data();
  }

  /// [members, 2]: of weights and direction, over all owners.
  at::Tensor squares_of(
      const BucketShard& shard,
      const std::vector<Slice>& slices,
      const at::Tensor& direction) const {
    const auto members = static_cast<std::int64_t>(
        layout_.buckets()[shard.bucket].members.size());
    at::Tensor squares = at::zeros({members, 2}, at::kDouble);
    for (const Slice& slice : slices) {
      const std::int64_t begin = slice.offset - shard.range.begin;
      const std::int64_t size = slice.in_parameter.size();
      double* sums = squares.data_ptr<double>() + 2 * member_of(slice);
      sums[0] = sum_of_squares(shard.weights.narrow(0, begin, size));
      sums[1] = sum_of_squares(direction.narrow(0, begin, size));
    }
    return sum_over(owners_.sharers(layout_.buckets()[shard.bucket]), squares);
  }

  const Layout& layout_;
  const optim::Lamb& lamb_;
  RankGroups owners_;
};

} // namespace

std::unique_ptr<BucketUpdate> make_lamb_update(
    const Layout& layout,
    const optim::Rule& rule,
    const RankGroups& owners) {
  return std::make_unique<LambUpdate>(
      layout,
      dynamic_cast<const optim::Lamb&>(rule),
      owners);
}

} // namespace cairn::zero
