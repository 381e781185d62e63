#include <cairn/nn/initial_weights.h>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <cairn/base/counter_random.h>

#include <algorithm>
#include <span>

namespace cairn::nn {
namespace {

/// Elements that lie in a row both here and in the whole parameter.
struct Run {
  std::int64_t local = 0; ///< first element, here
  std::int64_t whole = 0; ///< the same element there
  std::int64_t length = 0;
};

/// A parameter has one or two dimensions. Rows beyond the whole one's end,
/// which are padding, are in no run.
std::vector<Run> runs_of(const SlicedShape& shape) {
  const std::int64_t rows = std::clamp<std::int64_t>(
      shape.whole[0] - shape.offset[0],
      0,
      shape.local[0]);
  const std::int64_t width = shape.whole.size() > 1 ? shape.whole[1] : 1;
  const std::int64_t columns = shape.local.size() > 1 ? shape.local[1] : 1;
  const std::int64_t first = shape.offset.size() > 1 ? shape.offset[1] : 0;
  std::vector<Run> runs;
  if (columns == width) {
    runs.push_back({0, shape.offset[0] * width, rows * width});
    return runs;
  }
  runs.reserve(static_cast<std::size_t>(rows));
  for (std::int64_t row = 0; row < rows; ++row) {
    runs.push_back(
        {row * columns, (shape.offset[0] + row) * width + first, columns});
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
    StartValue start) const {
  const at::NoGradGuard no_grad;
  if (start == StartValue::zero) {
    local.zero_();
    return;
  }
  if (start == StartValue::one) {
    local.fill_(1);
    return;
  }
  const double chosen = start == StartValue::normal ? std : output_std;
  const CounterRandom random(seed, name);
  const at::Tensor values = local.is_cpu() && local.scalar_type() == at::kFloat
      ? local
      : at::empty(shape.local, at::kFloat);
  values.zero_(); // padding stays so
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
