#include "nn/loss/word_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cairn::nn::word_rows_gpu_test {
namespace {

using at::Tensor;

Tensor gradient_of(
    Tensor (*rows)(const Tensor&, const Tensor&),
    const Tensor& values,
    const Tensor& ids,
    const Tensor& upstream) {
  const Tensor table = values.detach().clone().requires_grad_();
  rows(table, ids).backward(upstream);
  return table.grad();
}

Tensor libtorch_rows(const Tensor& table, const Tensor& ids) {
  return at::embedding(table, ids);
}

TEST(WordRowsOnGpu, GivesTheGradientOfLibtorch) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    SCOPED_TRACE(c10::toString(type));
    const auto options = at::TensorOptions(at::kCUDA).dtype(type);
    const Tensor table = at::randn({997, 72}, options);
    // A fifth of the tokens is one common word.
    const Tensor drawn = at::randint(997, {6, 311}, options.dtype(at::kLong));
    const Tensor ids = drawn.masked_fill(
        at::rand({6, 311}, options.dtype(at::kFloat)).lt(0.2),
        5);
    const Tensor upstream = at::randn({6, 311, 72}, options);
    const Tensor found = gradient_of(word_rows, table, ids, upstream);
    const Tensor expected = gradient_of(
        libtorch_rows,
        table.to(at::kCPU, at::kDouble),
        ids.cpu(),
        upstream.to(at::kCPU, at::kDouble));
    const double step = type == at::kFloat ? 1e-5
        : type == at::kHalf                ? 1e-3
                                           : 8e-3;
    EXPECT_TRUE(
        at::allclose(found.to(at::kCPU, at::kDouble), expected, step, step));
    EXPECT_TRUE(at::equal(found, gradient_of(word_rows, table, ids, upstream)))
        << "the order of additions varies";
  }
}

} // namespace
} // namespace cairn::nn::word_rows_gpu_test
