#include "zero/optimizer/joint_update.h"

#include "kernels/internal/cuda/cuda.h"

#include <cairn/base/error.h>

#include <cstdint>
#include <cstring>
#include <tuple>
#include <utility>

namespace cairn::zero {

namespace {

/// Compares what stays the same from update to update.
bool same_stretch(
    const kernels::cuda::ManyStretchesRow& a,
    const kernels::cuda::ManyStretchesRow& b) {
  const auto facts = [](const kernels::cuda::ManyStretchesRow& row) {
    const kernels::Stretch& stretch = row.stretch;
    return std::tuple(
        stretch.weights,
        stretch.gradients,
        stretch.gradient_type,
        stretch.copy,
        stretch.copy_type,
        stretch.states,
        stretch.narrow.remainders,
        stretch.narrow.states,
        stretch.count,
        row.formula);
  };
  return facts(a) == facts(b);
}

} // namespace

void JointUpdate::send_numbers(
    std::span<const optim::GroupValues> groups,
    const optim::StepValues& step) {
  std::vector<std::uint32_t> numbers{static_cast<std::uint32_t>(step.step)};
  for (const optim::GroupValues& values : groups) {
    formula_ = rule_.constants(values, step);
    const std::size_t before = numbers.size();
    numbers.resize(before + formula_.count);
    std::memcpy(
        numbers.data() + before,
        formula_.numbers.data(),
        formula_.count * sizeof(float));
  }
  const std::size_t bytes = numbers.size() * sizeof numbers[0];
  if (!numbers_.defined()) {
    numbers_ = at::empty(
        {static_cast<std::int64_t>(bytes)},
        at::TensorOptions(device_).dtype(at::kByte));
  }
  send_bytes(numbers.data(), bytes, numbers_);
}

void JointUpdate::queue(const std::vector<BucketShard>& shards) {
  std::vector<kernels::cuda::ManyStretchesRow> rows;
  bool any_narrow = false;
  for (const BucketShard& shard : shards) {
    for (const Segment& segment : layout_.segments(shard.bucket, shard.range)) {
      if (segment.in_bucket.size() > 0) {
        rows.push_back(
            {.stretch = stretch_of(shard, segment.in_bucket),
             .formula = segment.group});
        any_narrow |= rows.back().stretch.narrow.any();
      }
    }
  }
  if (rows.empty()) {
    return;
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t blocks = kernels::cuda::number_blocks(rows.data(), count);
  const at::Tensor& factor = shards.front().gradient_factor;
  const auto* const numbers =
      static_cast<const std::uint32_t*>(numbers_.const_data_ptr());
  if (const char* failure = formula_.update_many(
          {.rows = table_.write(std::move(rows), device_, same_stretch),
           .count = count,
           .blocks = blocks,
           .formulas = numbers + 1,
           .key = numbers,
           .gradient_factor =
               factor.defined() ? factor.const_data_ptr<float>() : nullptr,
           .any_narrow = any_narrow},
          kernels::cuda::current_stream(device_.index()))) {
    throw InternalError({.what = failure, .where = "optimizer kernel"});
  }
}

} // namespace cairn::zero
