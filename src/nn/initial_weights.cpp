#include <cairn/nn/layer.h>

#include <ATen/Parallel.h>
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

void fill_run(
    float* values,
    const Run& run,
    const CounterRandom& random,
    float std) {
  constexpr std::int64_t grain = 1 << 14;
  at::parallel_for(0, run.length, grain, [&](auto begin, auto end) {
    const std::span<float> part(
        values + run.local + begin,
        static_cast<std::size_t>(end - begin));
    random.fill_normal(static_cast<std::uint64_t>(run.whole + begin), part);
    for (float& value : part) {
      value *= std;
    }
  });
}

} // namespace

void InitialWeights::fill(
    at::Tensor& local,
    const std::string& name,
    const SlicedShape& shape,
    model::InitialLaw law) const {
  const at::NoGradGuard no_grad;
  if (law == model::InitialLaw::zero) {
    local.zero_();
    return;
  }
  if (law == model::InitialLaw::one) {
    local.fill_(1);
    return;
  }
  const double chosen = law == model::InitialLaw::normal ? std : output_std;
  const CounterRandom random(seed, name);
  const at::Tensor values = local.is_cpu() && local.scalar_type() == at::kFloat
      ? local
      : at::empty(shape.local, at::kFloat);
  values.zero_(); // padding stays zero
  for (const Run& run : runs_of(shape)) {
    fill_run(
        values.mutable_data_ptr<float>(),
        run,
        random,
        static_cast<float>(chosen));
  }
  if (!values.is_same(local)) {
    local.copy_(values);
  }
}

} // namespace cairn::nn
