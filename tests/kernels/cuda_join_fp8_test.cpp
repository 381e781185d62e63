// Heads that are joined in fp8, against joining them and rounding the result.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda_test.h"
#include "kernels/internal/cuda/join_fp8.h"

namespace cairn::kernels::cuda_join_fp8_test {
namespace {

using at::Tensor;
using cuda_test::device;

/// A matrix in fp8 with room for all that is written beside it.
struct Made {
  Tensor rows;
  Tensor columns;
  Tensor unit;
  Tensor sums;
  Tensor largest;

  Made(
      std::int64_t row_count,
      std::int64_t column_count,
      cuda::Fp8 format,
      double unit_value) {
    const auto floats = at::TensorOptions(device).dtype(at::kFloat);
    const auto bytes = floats.dtype(
        format == cuda::Fp8::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2);
    rows = at::empty({row_count, column_count}, bytes);
    columns = at::empty({column_count, row_count}, bytes);
    unit = at::full({1}, unit_value, floats);
    sums = at::empty(
        {cuda::fp8_sum_parts({row_count, column_count}), column_count},
        floats);
    largest = at::zeros({1}, floats);
  }

  cuda::Fp8Target target(cuda::Fp8 format) const {
    return {
        .format = format,
        .rows = rows.mutable_data_ptr(),
        .columns = columns.mutable_data_ptr(),
        .unit = unit.mutable_data_ptr<float>(),
        .column_sums = sums.mutable_data_ptr<float>(),
        .largest = largest.mutable_data_ptr<float>()};
  }
};

Tensor bytes(const Tensor& x) {
  return x.to(at::kCPU).view(at::kByte);
}

struct Case {
  std::int64_t batch, tokens, groups, queries, size;
  std::int64_t tables; ///< of angles; 0: nothing is turned
};

void expect_the_same(const Case& each, Element element, cuda::Fp8 format) {
  const auto& [batch, tokens, groups, queries, size, tables] = each;
  const auto options = at::TensorOptions(device).dtype(
      element == Element::bf16 ? at::kBFloat16 : at::kHalf);
  const auto random = [&](at::IntArrayRef sizes) {
    return at::randn(sizes, at::TensorOptions(device)).to(options.dtype());
  };
  const Tensor angle = at::rand(
      {std::max<std::int64_t>(tables, 1), tokens, 1, size / 2},
      at::TensorOptions(device));
  const Tensor cosine = angle.cos().to(options.dtype());
  const Tensor sine = angle.sin().to(options.dtype());
  const cuda::Angles angles = tables == 0 ? cuda::Angles{}
                                          : cuda::Angles{
                                                cosine.const_data_ptr(),
                                                sine.const_data_ptr(),
                                                tables * tokens};
  // Tokens before heads, and heads before tokens.
  const Tensor query =
      random({batch, groups * queries, tokens, size}).transpose(1, 2);
  const Tensor key = random({batch, tokens, groups, size});
  const Tensor value = random({batch, tokens, groups, size});
  const auto heads = [](const Tensor& x) {
    return cuda::Heads{
        x.const_data_ptr(),
        x.stride(0),
        x.stride(1),
        x.stride(2)};
  };
  const cuda::HeadsOfAll from{heads(query), heads(key), heads(value)};
  const cuda::JoinedShape shape{batch, tokens, groups, queries, size, element};
  ASSERT_TRUE(cuda::can_join_heads(shape, from, angles));

  const std::int64_t rows = batch * tokens;
  const std::int64_t columns = groups * (queries + 2) * size;
  const Tensor joined = at::empty({rows, columns}, options);
  const Tensor parts = at::empty(
      {cuda::joined_parts(shape), columns},
      at::TensorOptions(device));
  void* const stream = cuda::current_stream(0);
  ASSERT_EQ(
      cuda::join_heads(
          shape,
          from,
          angles,
          joined.mutable_data_ptr(),
          parts.mutable_data_ptr<float>(),
          stream),
      nullptr);
  constexpr double unit = 0.01; // some values are beyond the range of e4m3
  const Made expected(rows, columns, format, unit);
  ASSERT_EQ(
      cuda::to_fp8(
          {.shape = {rows, columns, element},
           .matrix = joined.const_data_ptr()},
          nullptr,
          expected.target(format),
          stream),
      nullptr);
  const Made made(rows, columns, format, unit);
  ASSERT_EQ(
      cuda::join_heads_to_fp8(shape, from, angles, made.target(format), stream),
      nullptr);
  EXPECT_TRUE(at::equal(bytes(made.rows), bytes(expected.rows)));
  EXPECT_TRUE(at::equal(bytes(made.columns), bytes(expected.columns)));
  EXPECT_EQ(made.largest.item<float>(), expected.largest.item<float>());
  EXPECT_TRUE(at::equal(made.sums, expected.sums));
}

TEST(JoinedFp8, IsTheJoinedTensorRounded) {
  at::manual_seed(40);
  const Case cases[] = {
      {2, 8, 4, 1, 8, 0},
      {2, 72, 12, 1, 64, 0},
      {3, 48, 2, 4, 32, 0},
      {5, 16, 1, 2, 16, 1},
      {3, 16, 2, 4, 32, 3}};
  for (const Case& each : cases) {
    for (const Element element : {Element::bf16, Element::fp16}) {
      for (const cuda::Fp8 format : {cuda::Fp8::e4m3, cuda::Fp8::e5m2}) {
        SCOPED_TRACE(
            ::testing::Message() << each.batch << "x" << each.tokens << "x"
                                 << each.size << " " << each.tables);
        expect_the_same(each, element, format);
      }
    }
  }
}

} // namespace
} // namespace cairn::kernels::cuda_join_fp8_test
