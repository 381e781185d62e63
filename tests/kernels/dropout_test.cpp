// Dropout of rows on the GPU, against the CPU's, and what both must be: the
// same for any part of a matrix, and random.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "kernels/cuda_test.h"
#include "kernels/formulas/philox_rounds.h"
#include "kernels/internal/cpu/dropout.h"
#include "kernels/internal/cuda/dropout.h"
#include "kernels/internal/element_of.h"

namespace cairn::kernels::dropout_test {
namespace {

using at::Tensor;
using cuda_test::device;

constexpr std::int64_t samples = 3;
constexpr std::int64_t heads = 4;
constexpr std::int64_t tokens = 10;

/// Numbers that differ in low and in high bits.
Tensor numbers() {
  return at::tensor({7, 8, 1 << 20}, at::kLong) * (std::int64_t{1} << 20U) + 5;
}

DropoutRows whole_place(double probability) {
  DropoutRows place{.heads = heads, .tokens = tokens};
  place.early = tokens;
  place.key = 0x0123456789abcdef;
  place.drop(probability);
  return place;
}

DropoutRows filled(
    DropoutRows place,
    const Tensor& x,
    const Tensor& sample_numbers) {
  place.columns = x.size(-1);
  place.rows = x.numel() / place.columns;
  place.element = *element_of(x.scalar_type());
  place.samples = sample_numbers.const_data_ptr<std::int64_t>();
  return place;
}

Tensor by_cpu(const Tensor& x, const DropoutRows& place, const Tensor& of) {
  Tensor y = at::empty_like(x);
  const DropoutRows rows = filled(place, x, of);
  cpu::dropout_rows(
      rows,
      x.const_data_ptr(),
      y.mutable_data_ptr(),
      0,
      rows.rows);
  return y;
}

/// The kernel's result, on the CPU. Aligned memory can be read in eights.
Tensor by_gpu(
    const Tensor& x,
    const DropoutRows& place,
    const Tensor& of,
    bool aligned = true) {
  const Tensor on_device = of.to(device);
  const std::int64_t skipped = aligned ? 0 : 1;
  const Tensor from =
      at::empty({x.numel() + skipped}, x.options().device(device))
          .narrow(0, skipped, x.numel());
  from.copy_(x.flatten());
  const Tensor y = at::empty_like(from);
  const char* failure = cuda::dropout_rows(
      filled(place, from.view(x.sizes()), on_device),
      from.const_data_ptr(),
      y.mutable_data_ptr(),
      cuda::current_stream(0));
  EXPECT_EQ(failure, nullptr) << failure;
  return y.cpu().view(x.sizes());
}

Tensor ones(std::int64_t columns) {
  return at::ones({samples, heads, tokens, columns});
}

TEST(DropoutRows, GiveTheBitsOfTheCpu) {
  at::manual_seed(5);
  DropoutRows place = whole_place(0.3);
  place.first_row = 17;
  place.first_head = 9;
  place.early = 3;
  place.early_begin = 100;
  place.late_begin = 70'000;
  for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBFloat16}) {
    for (const std::int64_t columns : {1, 7, 8, 64, 129, 768, 2056}) {
      SCOPED_TRACE(::testing::Message() << type << " " << columns);
      const Tensor x = at::randn({60, columns}).to(type);
      const Tensor wanted = by_cpu(x, place, numbers());
      EXPECT_TRUE(at::equal(by_gpu(x, place, numbers()), wanted));
      EXPECT_TRUE(at::equal(by_gpu(x, place, numbers(), false), wanted));
      const Tensor kept = wanted.ne(0);
      EXPECT_TRUE(at::equal(
          wanted,
          (x.to(at::kFloat) * place.scale).to(type).mul_(kept)));
    }
  }
}

TEST(DropoutRows, AreTheSameForAnyPart) {
  for (const std::int64_t columns : {24, 37}) {
    const Tensor x = ones(columns);
    const DropoutRows place = whole_place(0.5);
    const Tensor whole = by_gpu(x, place, numbers());
    const auto expect_part =
        [&](const Tensor& part, const DropoutRows& where, const Tensor& of) {
          const Tensor input = at::ones_like(part);
          EXPECT_TRUE(at::equal(by_gpu(input, where, of), part));
          EXPECT_TRUE(at::equal(by_cpu(input, where, of), part));
        };
    // A sample, as another rank or micro batch has it.
    expect_part(whole.narrow(0, 2, 1), place, numbers().narrow(0, 2, 1));
    // Some heads.
    DropoutRows some = place;
    some.heads = 2;
    some.first_head = 1;
    expect_part(whole.narrow(1, 1, 2).contiguous(), some, numbers());
    // Some rows, in the middle of a sample.
    some = place;
    some.first_row = 33;
    expect_part(whole.flatten(0, 2).narrow(0, 33, 51), some, numbers());
    // The first columns.
    expect_part(whole.narrow(3, 0, 11).contiguous(), place, numbers());
    // Columns in the middle.
    some = place;
    some.first_column = 16;
    expect_part(
        whole.narrow(3, 16, columns - 16).contiguous(),
        some,
        numbers());
    // An early and a late piece of every sequence.
    some = place;
    some.tokens = 5;
    some.early = 2;
    some.early_begin = 1;
    some.late_begin = 6;
    expect_part(
        at::cat({whole.narrow(2, 1, 2), whole.narrow(2, 6, 3)}, 2),
        some,
        numbers());
  }
}

/// The share of elements that are dropped here and there.
double both(const Tensor& a, const Tensor& b) {
  return a.logical_and(b).to(at::kDouble).mean().item<double>();
}

TEST(DropoutRows, DropIndependently) {
  constexpr std::int64_t columns = 4000;
  for (const double probability : {0.1, 0.5}) {
    DropoutRows place = whole_place(probability);
    const Tensor y = by_cpu(ones(columns), place, numbers());
    const Tensor dropped = y.eq(0);
    const auto count = static_cast<double>(dropped.numel());
    const auto expect_share = [&](double share, double wanted) {
      // 5 deviations, for half as many elements
      const double most = 5 * std::sqrt(2 * wanted * (1 - wanted) / count);
      EXPECT_NEAR(share, wanted, most);
    };
    const double one = probability;
    expect_share(both(dropped, dropped), one);
    EXPECT_NEAR(y.mean().item<double>(), 1, 0.01);
    for (const std::int64_t apart : {1, 2, 7, 8, 64}) { // columns
      expect_share(
          both(
              dropped.narrow(3, 0, columns - apart),
              dropped.narrow(3, apart, columns - apart)),
          one * one);
    }
    for (const std::int64_t dimension : {0, 1, 2}) {
      const std::int64_t size = dropped.size(dimension) - 1;
      expect_share(
          both(
              dropped.narrow(dimension, 0, size),
              dropped.narrow(dimension, 1, size)),
          one * one);
    }
    ++place.key;
    const Tensor other = by_cpu(ones(columns), place, numbers());
    expect_share(both(dropped, other.eq(0)), one * one);
  }
}

/// What kernels draw with the keys of rounds that were computed before.
TEST(PhiloxRounds, GiveTheWordsOfPhilox) {
  for (const std::uint64_t key :
       {std::uint64_t{0}, std::uint64_t{0xfedcba9876543210}}) {
    const PhiloxRounds rounds(key);
    for (const std::uint64_t low : {std::uint64_t{7}, ~std::uint64_t{3}}) {
      for (const std::uint64_t high :
           {std::uint64_t{0}, std::uint64_t{1} << 50}) {
        const Philox4x32 expected = Philox4x32::at(low, high, key);
        const Philox4x32 found = rounds.at(low, high);
        for (int i = 0; i < 4; ++i) {
          EXPECT_EQ(found.words[i], expected.words[i]);
        }
      }
    }
  }
}

TEST(DropoutRows, DropNothingOrAll) {
  const Tensor x = at::randn({samples, heads, tokens, 9});
  EXPECT_TRUE(at::equal(by_gpu(x, whole_place(0), numbers()), x));
  EXPECT_TRUE(at::equal(by_cpu(x, whole_place(0), numbers()), x));
  const Tensor zeros = at::zeros_like(x);
  EXPECT_TRUE(at::equal(by_gpu(x, whole_place(1), numbers()), zeros));
  EXPECT_TRUE(at::equal(by_cpu(x, whole_place(1), numbers()), zeros));
}

} // namespace
} // namespace cairn::kernels::dropout_test
