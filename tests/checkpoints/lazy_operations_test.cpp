#include "checkpoints/tensors/lazy_operations.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <vector>

namespace cairn::checkpoints::lazy_operations_test {
namespace {

LazyTensor lazy(const at::Tensor& values) {
  return {values.scalar_type(), values.sizes().vec(), [=] { return values; }};
}

at::Tensor numbers(std::int64_t rows, std::int64_t columns) {
  return at::arange(rows * columns, at::kFloat).view({rows, columns});
}

/// Expects the same values when read whole, by single rows and as a stream.
void expect_is(const LazyTensor& tensor, const at::Tensor& wanted) {
  ASSERT_EQ(tensor.shape, wanted.sizes().vec());
  ASSERT_EQ(tensor.type, wanted.scalar_type());
  EXPECT_TRUE(tensor.load().equal(wanted));
  const LazyTensor::Rows rows = tensor.open();
  for (std::int64_t i = tensor.rows() - 1; i >= 0; --i) {
    EXPECT_TRUE(rows(i, i + 1).equal(wanted.narrow(0, i, 1))) << i;
  }
  std::vector<std::byte> bytes;
  tensor.stream([&](std::span<const std::byte> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  });
  const at::Tensor flat = wanted.contiguous();
  const auto* first = static_cast<const std::byte*>(flat.const_data_ptr());
  EXPECT_EQ(bytes, std::vector<std::byte>(first, first + flat.nbytes()));
}

TEST(LazyOperations, AreThoseOfTensors) {
  const at::Tensor a = numbers(6, 4);
  const at::Tensor b = numbers(4, 4) + 100;
  expect_is(transposed(lazy(a)), a.t());
  expect_is(sliced(lazy(a), 0, 2, 5), a.narrow(0, 2, 3));
  expect_is(sliced(lazy(a), 1, 1, 3), a.narrow(1, 1, 2));
  expect_is(sliced(lazy(a), 0, 3, 3), a.narrow(0, 3, 0));
  expect_is(joined({lazy(a), lazy(b)}, 0), at::cat({a, b}, 0));
  expect_is(joined({lazy(a), lazy(a)}, 1), at::cat({a, a}, 1));
  expect_is(elements(lazy(a), 3, 18), a.view({-1}).narrow(0, 3, 15));
  expect_is(reshaped(lazy(a.view({-1})), {3, 2, 4}), a.view({3, 2, 4}));
  expect_is(
      rows_repeating_last(lazy(b), 2, 7),
      at::cat({b.narrow(0, 2, 2), b[3].expand({3, 4})}));
  expect_is(rows_repeating_last(lazy(b), 5, 7), b[3].expand({2, 4}));
  const at::Tensor both = at::cat(
      {a.view({2, 3, 4}), b.view({2, 2, 4})},
      1); // two groups of each
  expect_is(interleaved({lazy(a), lazy(b)}, 2), both.view({10, 4}));
  expect_is(deinterleaved(lazy(both.view({10, 4})), 2, {3, 2}, 0), a);
  expect_is(deinterleaved(lazy(both.view({10, 4})), 2, {3, 2}, 1), b);
  expect_is(
      transposed(sliced(transposed(lazy(a)), 0, 1, 3)),
      a.narrow(1, 1, 2));
}

/// Rows that lie in one part alone have that type, too.
TEST(LazyOperations, GiveWhatIsJoinedOneType) {
  const at::Tensor half = numbers(2, 4).to(at::kHalf);
  const at::Tensor brain = numbers(3, 4).to(at::kBFloat16);
  for (const std::int64_t dim : {0, 1}) {
    const at::Tensor other = dim == 0 ? brain : brain.narrow(0, 0, 2);
    expect_is(
        joined({lazy(half), lazy(other)}, dim),
        at::cat({half, other.to(at::kHalf)}, dim));
  }
}

} // namespace
} // namespace cairn::checkpoints::lazy_operations_test
