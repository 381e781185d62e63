#include "nn/linear/product.h"

#include "../best_seconds.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

// product_bench: our product of matrices beside libtorch's (its BLAS), in the
// shapes and orders that training has: forward, backward to the input, backward
// to the weight. One line of JSON; the value is the mean of the ratios.

namespace {

struct Shape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
};

double rate(const Shape& shape, auto&& multiply) {
  multiply();
  const double seconds = cairn::bench::best_seconds(0.3, multiply);
  return 2e-9 * static_cast<double>(shape.rows * shape.columns * shape.depth) /
      seconds;
}

} // namespace

int main() {
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) {
    at::set_num_threads(std::atoi(threads));
  }
  const std::vector<Shape> shapes{
      {256, 3072, 768},
      {256, 768, 3072},
      {256, 50257, 768},
      {2048, 1536, 384},
      {2048, 384, 1536},
      {2048, 4096, 384},
      {768, 512, 128},
      {768, 128, 512}};
  double sum = 0;
  double least = 1e9;
  double most = 0;
  std::string rates;
  int count = 0;
  for (const Shape& shape : shapes) {
    const at::Tensor left = at::randn({shape.rows, shape.depth});
    const at::Tensor left_columns = left.t().contiguous().t();
    const at::Tensor right = at::randn({shape.depth, shape.columns});
    const at::Tensor right_columns = right.t().contiguous().t();
    const std::vector<std::pair<at::Tensor, at::Tensor>> orders{
        {left, right_columns},
        {left, right},
        {left_columns, right}};
    for (const auto& [a, b] : orders) {
      const double ours = rate(shape, [&] { cairn::nn::product(a, b); });
      const double theirs = rate(shape, [&] { at::mm(a, b); });
      const double ratio = ours / theirs;
      sum += ratio;
      least = std::min(least, ratio);
      most = std::max(most, ratio);
      rates += fmt::format(
          R"({}{{"shape": "{} x {} x {}", "cairn": {:.1f}, "libtorch": {:.1f}}})",
          rates.empty() ? "" : ", ",
          shape.rows,
          shape.depth,
          shape.columns,
          ours,
          theirs);
      ++count;
    }
  }
  fmt::print(
      R"({{"value": {:.3f}, "unit": "x libtorch", "best": {:.3f}, "worst": {:.3f}, "gflops": [{}]}})"
      "\n",
      sum / count,
      most,
      least,
      rates);
  return 0;
}
