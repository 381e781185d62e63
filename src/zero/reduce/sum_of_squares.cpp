#include "zero/internal/sum_of_squares.h"

#include "kernels/internal/cpu/cpu.h"
#include "kernels/internal/in_parallel.h"
#include "zero/internal/bucket_shard.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace cairn::zero {

namespace {

double on_cpu(const at::Tensor& values) {
  constexpr std::int64_t chunk = 1 << 16;
  const std::int64_t count = values.numel();
  const auto* bytes = static_cast<const char*>(values.const_data_ptr());
  const auto size = static_cast<std::int64_t>(values.element_size());
  const kernels::Element element = element_of(values.scalar_type());
  std::vector<double> sums((count + chunk - 1) / chunk);
  kernels::in_parallel(
      static_cast<std::int64_t>(sums.size()),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          sums[i] = kernels::cpu::sum_of_squares(
              bytes + i * chunk * size,
              element,
              std::min(chunk, count - i * chunk));
        }
      });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

at::Tensor on_gpu(const std::vector<at::Tensor>& values) {
  return at::stack(at::_foreach_norm(values, 2, at::kFloat))
      .to(at::kDouble)
      .square_()
      .sum();
}

} // namespace

at::Tensor sum_of_squares_on(at::Device device, at::TensorList values) {
  double sum = 0;
  std::vector<at::Tensor> elsewhere;
  for (const at::Tensor& each : values) {
    if (each.is_cpu()) {
      sum += on_cpu(each);
    } else if (each.numel() > 0) {
      elsewhere.push_back(each);
    }
  }
  at::Tensor total =
      at::full({1}, sum, at::TensorOptions(device).dtype(at::kDouble));
  if (!elsewhere.empty()) {
    total.add_(on_gpu(elsewhere).to(device));
  }
  return total;
}

double sum_of_squares(at::TensorList values) {
  return sum_of_squares_on(at::kCPU, values).item<double>();
}

} // namespace cairn::zero
