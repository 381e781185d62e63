#include "zero/bucket_update.h"
#include "zero/over_threads.h"
#include "zero/place_of.h"

namespace cairn::zero {

namespace {

class ElementwiseUpdate final : public BucketUpdate {
 public:
  ElementwiseUpdate(const Layout& layout, const optim::Rule& rule)
      : layout_(layout), rule_(rule) {}

  void update(
      const BucketShard& shard,
      std::span<const optim::GroupValues> groups,
      const optim::StepValues& step) const override {
    const optim::Place place = place_of(shard.weights);
    for (const Segment& segment : layout_.segments(shard.bucket, shard.range)) {
      over_threads(
          stretch_of(shard, segment.in_bucket),
          place,
          [&](const kernels::Stretch& part, std::int64_t) {
            rule_.update(part, groups[segment.group], step, place);
          });
    }
  }

 private:
  const Layout& layout_;
  const optim::Rule& rule_;
};

} // namespace

std::unique_ptr<BucketUpdate> make_elementwise_update(
    const Layout& layout,
    const optim::Rule& rule) {
  return std::make_unique<ElementwiseUpdate>(layout, rule);
}

} // namespace cairn::zero
