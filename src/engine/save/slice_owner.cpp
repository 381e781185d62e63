#include "engine/save/slice_owner.h"

#include "engine/save/checkpoint_names.h"
#include "zero/internal/sum_over.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <limits>

namespace cairn::inline engine {

namespace {

std::vector<std::int64_t> find_group_speakers(
    const zero::Layout& layout,
    int groups,
    const std::optional<distributed::ProcessMesh>& mesh,
    int model_rank) {
  at::Tensor speakers =
      at::full({groups}, std::numeric_limits<std::int64_t>::max(), at::kLong);
  for (const zero::ParameterSpec& spec : layout.parameters()) {
    if (spec.trainable) {
      speakers[spec.group] = model_rank;
    }
  }
  if (mesh) {
    speakers = zero::sum_over(
        mesh->model_parallel(),
        speakers,
        distributed::ReduceOp::min);
  }
  return {
      speakers.const_data_ptr<std::int64_t>(),
      speakers.const_data_ptr<std::int64_t>() + groups};
}

} // namespace

SliceOwner::SliceOwner(
    const zero::Layout& layout,
    const std::vector<ParameterShare>& shares,
    int groups,
    const Ranks& ranks)
    : layout_(layout),
      shares_(shares),
      ranks_(ranks),
      model_rank_(ranks.mesh ? ranks.mesh->model_parallel().rank() : 0),
      group_speakers_(
          find_group_speakers(layout, groups, ranks.mesh, model_rank_)) {}

bool SliceOwner::speaks_for(const ParameterShare& share) const {
  return share.holders.front() == model_rank_;
}

bool SliceOwner::speaks_for_group(int group) const {
  if (group_speakers_[group] != model_rank_ ||
      ranks_.groups.replicas.rank() != 0) {
    return false;
  }
  const auto& buckets = layout_.buckets();
  for (int b = 0; b < static_cast<int>(buckets.size()); ++b) {
    const zero::Range whole{0, buckets[b].elements};
    for (const zero::Segment& segment : layout_.segments(b, whole)) {
      if (segment.group == group && buckets[b].trainable) {
        const zero::Range mine = shard(b);
        const bool first_experts = !buckets[b].expert ||
            ranks_.mesh->coordinate(distributed::Axis::expert) == 0;
        return first_experts && mine.begin <= segment.in_bucket.begin &&
            segment.in_bucket.begin < mine.end;
      }
    }
  }
  return false;
}

zero::Range SliceOwner::shard(int bucket) const {
  const zero::Bucket& plan = layout_.buckets()[bucket];
  return layout_.shard(bucket, ranks_.groups.sharers(plan).rank());
}

/// The part that this rank speaks for of a stretch that several ranks may hold.
zero::Range SliceOwner::spoken_for(int bucket, zero::Range held) const {
  const zero::Range mine = shard(bucket);
  const std::int64_t begin = std::max(held.begin, mine.begin);
  if (ranks_.groups.replicas.rank() != 0) { // the first copy counts
    return {begin, begin};
  }
  return {begin, std::max(begin, std::min(held.end, mine.end))};
}

void SliceOwner::for_each_slice(
    int bucket,
    zero::Range held,
    at::Tensor& values,
    const Visit& visit) const {
  for (const zero::Slice& slice : layout_.slices(bucket, held)) {
    at::Tensor part =
        values.narrow(0, slice.offset - held.begin, slice.in_parameter.size());
    visit(slice, part);
  }
}

void SliceOwner::put(
    checkpoints::Sink& sink,
    int bucket,
    zero::Range held,
    std::string_view kind,
    const at::Tensor& values) const {
  for (const zero::Slice& slice :
       layout_.slices(bucket, spoken_for(bucket, held))) {
    const ParameterShare& share = shares_[slice.parameter];
    const std::int64_t begin = slice.in_parameter.begin;
    // Values behind the elements are padding.
    const std::int64_t size =
        std::min(slice.in_parameter.end, share.elements) - begin;
    if (speaks_for(share) && size > 0) {
      sink.put(
          {.name = name_of(kind, layout_.parameters()[slice.parameter].name),
           .shape = share.whole,
           .box = share.box,
           .begin = begin,
           .values = values.narrow(0, slice.offset - held.begin, size)});
    }
  }
}

} // namespace cairn::engine
