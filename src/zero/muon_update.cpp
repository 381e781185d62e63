#include "zero/bucket_update.h"
#include "zero/over_threads.h"
#include "zero/place_of.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <cairn/optim/muon.h>
#include <cairn/optim/newton_schulz.h>

#include <utility>

namespace cairn::zero {

namespace {

/// Muon makes whole matrices orthogonal. The owners bring a bucket's momentum
/// together; then each works on the matrices that reach into its part, so a
/// matrix within one part is computed once.
class MuonUpdate final : public BucketUpdate {
 public:
  MuonUpdate(const Layout& layout, const optim::Muon& muon, RankGroups owners)
      : layout_(layout), muon_(muon), owners_(std::move(owners)) {}

  void update(
      const BucketShard& shard,
      std::span<const optim::GroupValues> groups,
      const optim::StepValues& step) const override {
    const optim::Place place = place_of(shard.weights);
    const at::Tensor momentum = at::zeros_like(shard.weights);
    bool any_matrix = false;
    for (const Placement& member : layout_.buckets()[shard.bucket].members) {
      any_matrix = any_matrix || takes(member.parameter);
    }
    const auto slices = layout_.slices(shard.bucket, shard.range);
    for (const Slice& slice : slices) {
      const auto& values = values_of(slice, groups);
      over_threads(
          stretch_of(shard, slice.in_bucket()),
          place,
          [&](const kernels::Stretch& part, std::int64_t skip) {
            if (takes(slice.parameter)) {
              muon_.momentum(
                  part,
                  values,
                  step,
                  place,
                  momentum.data_ptr<float>() +
                      (slice.offset - shard.range.begin) + skip);
            } else {
              muon_.rest().update(part, values, step, place);
            }
          });
    }
    if (!any_matrix) {
      return;
    }
    const at::Tensor all = whole_bucket(shard.bucket, momentum);
    for (const Slice& slice : slices) {
      if (takes(slice.parameter)) {
        apply(shard, slice, all, values_of(slice, groups), place);
      }
    }
  }

 private:
  bool takes(int parameter) const {
    const ParameterSpec& spec = layout_.parameters()[parameter];
    return optim::Muon::takes(spec.name, spec.shape);
  }

  const optim::GroupValues& values_of(
      const Slice& slice,
      std::span<const optim::GroupValues> groups) const {
    return groups[layout_.parameters()[slice.parameter].group];
  }

  at::Tensor whole_bucket(int bucket, const at::Tensor& part) const {
    const distributed::ProcessGroup& owners =
        owners_.sharers(layout_.buckets()[bucket]);
    const bool through_gpu = owners.backend() == "nccl" && part.is_cpu();
    return owners.all_gather(through_gpu ? part.cuda() : part)
        .wait()
        .to(part.device());
  }

  void apply(
      const BucketShard& shard,
      const Slice& slice,
      const at::Tensor& all,
      const optim::GroupValues& values,
      optim::Place place) const {
    const ParameterSpec& spec = layout_.parameters()[slice.parameter];
    const std::int64_t rows = spec.shape[0];
    const std::int64_t columns = spec.elements() / rows;
    const Placement& home = layout_.placement_of(slice.parameter);
    const at::Tensor direction =
        optim::orthogonal(
            at::Tensor(all.narrow(0, home.offset, home.elements)
                           .view({rows, columns})),
            muon_.method())
            .contiguous()
            .view({-1});
    over_threads(
        stretch_of(shard, slice.in_bucket()),
        place,
        [&](const kernels::Stretch& part, std::int64_t skip) {
          muon_.apply(
              part,
              direction.const_data_ptr<float>() + slice.in_parameter.begin +
                  skip,
              rows,
              columns,
              values,
              place);
        });
  }

  const Layout& layout_;
  const optim::Muon& muon_;
  RankGroups owners_;
};

} // namespace

std::unique_ptr<BucketUpdate> make_muon_update(
    const Layout& layout,
    const optim::Rule& rule,
    const RankGroups& owners) {
  return std::make_unique<MuonUpdate>(
      layout,
      dynamic_cast<const optim::Muon&>(rule),
      owners);
}

} // namespace cairn::zero
