#include <cairn/nn/layer.h>

#include "kernels/internal/in_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <cairn/base/counter_random.h>

#include <algorithm>
#include <span>

namespace cairn::nn {
namespace {

/// Elements that are contiguous both here and in the whole parameter.
struct Run {
  std::int64_t local = 0; ///< first element, in the local part
  std::int64_t whole = 0; ///< the same element, in the whole
  std::int64_t length = 0;
};

/// The runs of a shape. Rows beyond the end of the whole parameter are padding
/// and in no run.
std::vector<Run> runs_of(const SlicedShape& shape) {
  const std::size_t dims = shape.whole.size();
  std::vector<std::int64_t> size = shape.local;
  size[0] = std::clamp<std::int64_t>(
      shape.whole[0] - shape.offset[0],
      0,
      shape.local[0]);
  // All dimensions after `first` are whole.
  std::size_t first = dims - 1;
  std::int64_t behind = 1; // elements per step along `first`
  while (first > 0 && shape.local[first] == shape.whole[first]) {
    behind *= shape.whole[first--];
  }
  std::int64_t count = 1;
  for (std::size_t d = 0; d < first; ++d) {
    count *= size[d];
  }
  const std::int64_t length = size[first] * behind;
  std::vector<Run> runs;
  runs.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t whole = shape.offset[first] * behind;
    std::int64_t rest = i;
    std::int64_t stride = shape.whole[first] * behind;
    for (std::size_t d = first; d-- > 0;) {
      whole += (shape.offset[d] + rest % size[d]) * stride;
      rest /= size[d];
      stride *= shape.whole[d];
    }
    runs.push_back({i * shape.local[first] * behind, whole, length});
  }
  return runs;
}

/// The part of a run that lies in elements [first, first + count) of the local
/// part. Its `local` counts from `first`.
Run within(const Run& run, std::int64_t first, std::int64_t count) {
  const std::int64_t begin = std::max(run.local, first);
  const std::int64_t end = std::min(run.local + run.length, first + count);
  return {
      .local = begin - first,
      .whole = run.whole + begin - run.local,
      .length = end - begin};
}

void divide_rows(
    std::span<float> values,
    std::int64_t first, ///< place of the values in the whole matrix
    std::int64_t columns,
    const InitialWeights::DividedRows& divided) {
  const auto by = static_cast<float>(divided.by);
  for (float& value : values) {
    if (first++ / columns % divided.period < divided.rows) {
      value /= by;
    }
  }
}

} // namespace

void InitialWeights::fill(
    const at::Tensor& values,
    std::int64_t first,
    const std::string& name,
    const SlicedShape& shape,
    model::InitialLaw law) const {
  const at::NoGradGuard no_grad;
  if (law == model::InitialLaw::zero) {
    values.zero_();
    return;
  }
  if (law == model::InitialLaw::one) {
    values.fill_(1);
    return;
  }
  const auto deviation =
      static_cast<float>(law == model::InitialLaw::normal ? std : output_std);
  const CounterRandom random(seed, name);
  const bool in_place = values.is_cpu() && values.scalar_type() == at::kFloat;
  const at::Tensor drawn =
      in_place ? values : at::empty({values.numel()}, at::kFloat);
  drawn.zero_(); // padding stays zero
  float* const out = drawn.mutable_data_ptr<float>();
  for (const Run& whole_run : runs_of(shape)) {
    const Run run = within(whole_run, first, values.numel());
    constexpr std::int64_t grain = 1 << 14;
    const std::int64_t grains = (run.length + grain - 1) / grain;
    kernels::in_parallel(grains, [&](std::int64_t from, std::int64_t to) {
      const std::int64_t begin = from * grain;
      const std::int64_t end = std::min(to * grain, run.length);
      const std::span<float> part(
          out + run.local + begin,
          static_cast<std::size_t>(end - begin));
      random.fill_normal(static_cast<std::uint64_t>(run.whole + begin), part);
      for (float& value : part) {
        value *= deviation;
      }
      if (divided.period > 0) {
        divide_rows(part, run.whole + begin, shape.whole.back(), divided);
      }
    });
  }
  if (!in_place) {
    values.copy_(drawn);
  }
}

} // namespace cairn::nn
