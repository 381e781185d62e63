#include "zero/internal/sum_of_squares.h"

#include "kernels/internal/cpu/cpu.h"
#include "kernels/internal/in_parallel.h"
#include "zero/internal/bucket_shard.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
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

bool same_values(
    const kernels::cuda::SquaredRow& a,
    const kernels::cuda::SquaredRow& b) {
  return std::tie(a.values, a.type, a.count) ==
      std::tie(b.values, b.type, b.count);
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

at::Tensor SumOfSquares::operator()(at::Device device, at::TensorList values) {
  const bool here = device.is_cuda() && kernels::cuda::has_kernels() &&
      std::ranges::all_of(values, [&](const at::Tensor& each) {
                      return each.device() == device;
                    });
  if (!here) {
    return sum_of_squares_on(device, values);
  }
  std::vector<kernels::cuda::SquaredRow> rows;
  for (const at::Tensor& each : values) {
    if (each.numel() > 0) {
      rows.push_back(
          {.values = each.const_data_ptr(),
           .type = element_of(each.scalar_type()),
           .count = each.numel()});
    }
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  const std::int64_t blocks = kernels::cuda::number_blocks(rows.data(), count);
  const auto numbers = at::TensorOptions(device).dtype(at::kDouble);
  if (!parts_.defined()) {
    parts_ = at::empty({kernels::cuda::most_square_parts}, numbers);
  }
  at::Tensor sum = at::empty({1}, numbers);
  if (const char* failure = kernels::cuda::sum_of_squares(
          {table_.write(std::move(rows), device, same_values), count, blocks},
          parts_.mutable_data_ptr<double>(),
          sum.mutable_data_ptr<double>(),
          kernels::cuda::current_stream(device.index()))) {
    throw InternalError({.what = failure, .where = "norm of gradients"});
  }
  return sum;
}

double sum_of_squares(at::TensorList values) {
  return sum_of_squares_on(at::kCPU, values).item<double>();
}

} // namespace cairn::zero
