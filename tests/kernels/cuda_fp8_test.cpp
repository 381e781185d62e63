// Rounding to fp8, against libtorch's own conversions of the same values.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/cuda_test.h"
#include "kernels/internal/cuda/fp8.h"

namespace cairn::kernels::cuda_fp8_test {
namespace {

using at::Tensor;
using Of = cuda::Fp8Source::Of;

using cuda_test::device;

struct Rounded {
  Tensor rows;
  Tensor columns;
  Tensor unit;
  Tensor sums;
};

cuda::Fp8Source source_of(const Tensor& matrix, Element element) {
  return {
      .shape = {matrix.size(0), matrix.size(1), element},
      .matrix = matrix.const_data_ptr()};
}

Rounded rounded(const cuda::Fp8Source& source, cuda::Fp8 format) {
  const auto& [rows, columns, element] = source.shape;
  const auto floats = at::TensorOptions(device).dtype(at::kFloat);
  const auto bytes = floats.dtype(
      format == cuda::Fp8::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2);
  Rounded made{
      at::empty({rows, columns}, bytes),
      at::empty({columns, rows}, bytes),
      at::empty({1}, floats),
      at::empty({cuda::fp8_sum_parts(source.shape), columns}, floats)};
  const Tensor parts = at::empty({cuda::largest_count(source.shape)}, floats);
  void* const stream = cuda::current_stream(0);
  EXPECT_EQ(
      cuda::largest_parts(source, parts.mutable_data_ptr<float>(), stream),
      nullptr);
  const cuda::Fp8Target target{
      .format = format,
      .rows = made.rows.mutable_data_ptr(),
      .columns = made.columns.mutable_data_ptr(),
      .unit = made.unit.mutable_data_ptr<float>(),
      .column_sums = made.sums.mutable_data_ptr<float>()};
  EXPECT_EQ(
      cuda::to_fp8(source, parts.const_data_ptr<float>(), target, stream),
      nullptr);
  return made;
}

/// Compares with the largest value and the roundings of `values`, which are
/// what the kernel computes in float.
void expect_rounded(
    const Rounded& made,
    const Tensor& values,
    double bound,
    double slack = 1) {
  const bool wide = made.rows.scalar_type() == at::kFloat8_e5m2;
  const double most = values.abs().max().item<double>();
  const double unit = made.unit.item<double>();
  const double least_unit = most / (wide ? 57344 : 448);
  EXPECT_GE(unit, least_unit * (1 - 1e-5));
  EXPECT_LE(unit, least_unit * (1 + 1e-5) * slack);
  const Tensor found = made.rows.to(at::kCPU, at::kFloat).to(at::kDouble);
  EXPECT_TRUE(at::equal(
      found,
      made.columns.to(at::kCPU, at::kFloat).to(at::kDouble).t()));
  // Half the distance of neighbours, below which e4m3 has steps of 2^-9 and
  // e5m2 of 2^-16.
  const Tensor allowed = values.abs() * ((wide ? 0.125 : 0.0625) + bound) +
      unit * (wide ? 0x1p-17 : 0x1p-10) * (1 + bound) + 1e-7 * most;
  EXPECT_TRUE(((found * unit - values).abs() <= allowed).all().item<bool>());
  const Tensor sums = made.sums.to(at::kCPU, at::kDouble).sum(0);
  EXPECT_TRUE(at::allclose(sums, values.sum(0), 1e-4, 1e-4 * most));
}

TEST(Fp8Kernels, RoundMatricesInBothOrders) {
  at::manual_seed(3);
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {16, 16},
      {128, 128},
      {144, 272},
      {256, 1600}};
  const std::pair<at::ScalarType, Element> types[] = {
      {at::kBFloat16, Element::bf16},
      {at::kHalf, Element::fp16}};
  for (const auto& [dtype, element] : types) {
    for (const auto& [rows, columns] : shapes) {
      for (const auto format : {cuda::Fp8::e4m3, cuda::Fp8::e5m2}) {
        SCOPED_TRACE(::testing::Message() << dtype << rows << "x" << columns);
        const Tensor matrix =
            at::randn({rows, columns}, at::TensorOptions(device)).to(dtype);
        const Tensor exact = matrix.to(at::kCPU, at::kDouble);
        const Rounded made = rounded(source_of(matrix, element), format);
        expect_rounded(made, exact, 0);
        // Bit by bit what libtorch makes of the same quotients.
        const Tensor quotients =
            exact.to(at::kFloat) * (1 / made.unit.item<float>());
        EXPECT_TRUE(at::equal(
            made.rows.to(at::kCPU).view(at::kByte),
            quotients.clamp(-57344, 57344)
                .to(made.rows.scalar_type())
                .view(at::kByte)));
      }
    }
  }
}

TEST(Fp8Kernels, RoundGeluAndItsGradient) {
  at::manual_seed(4);
  const auto random = [] {
    return at::randn({144, 272}, at::TensorOptions(device)).to(at::kBFloat16);
  };
  for (const bool by_tanh : {true, false}) {
    const Tensor x = random();
    const Tensor gradient = random();
    const char* const form = by_tanh ? "tanh" : "none";
    cuda::Fp8Source source = source_of(x, Element::bf16);
    source.gelu = by_tanh ? cuda::Gelu::tanh : cuda::Gelu::exact;
    source.of = Of::gelu;
    const Tensor exact = x.to(at::kCPU, at::kDouble);
    expect_rounded(
        rounded(source, cuda::Fp8::e4m3),
        at::gelu(exact, form),
        1e-5);
    source.of = Of::gelu_gradient;
    source.matrix = gradient.const_data_ptr();
    source.sums = x.const_data_ptr();
    expect_rounded(
        rounded(source, cuda::Fp8::e5m2),
        at::gelu_backward(gradient.to(at::kCPU, at::kDouble), exact, form),
        1e-5,
        /*slack=*/8);
  }
}

TEST(Fp8Kernels, KeepTheUnitThatThereIs) {
  const auto bf16 = at::TensorOptions(device).dtype(at::kBFloat16);
  const Tensor matrix = at::full({16, 16}, 2.0, bf16);
  const cuda::Fp8Source source = source_of(matrix, Element::bf16);
  const Tensor rows =
      at::empty({16, 16}, at::TensorOptions(device).dtype(at::kFloat8_e4m3fn));
  const Tensor unit = at::full({1}, 0.5, at::TensorOptions(device));
  const cuda::Fp8Target target{
      .rows = rows.mutable_data_ptr(),
      .unit = unit.mutable_data_ptr<float>()};
  EXPECT_EQ(
      cuda::to_fp8(source, nullptr, target, cuda::current_stream(0)),
      nullptr);
  EXPECT_EQ(unit.item<float>(), 0.5F);
  EXPECT_TRUE(rows.to(at::kFloat).eq(4).all().item<bool>());
}

TEST(Fp8Kernels, RoundSwigluAndItsGradients) {
  at::manual_seed(5);
  const auto random = [] {
    return at::randn({144, 272}, at::TensorOptions(device)).to(at::kBFloat16);
  };
  const auto exact = [](const Tensor& x) {
    return x.to(at::kCPU, at::kDouble);
  };
  const Tensor gradient = random();
  const Tensor gate = random();
  const Tensor up = random();
  cuda::Fp8Source source = source_of(up, Element::bf16);
  source.of = Of::silu_product;
  source.sums = gate.const_data_ptr();
  expect_rounded(
      rounded(source, cuda::Fp8::e4m3),
      exact(up) * at::silu(exact(gate)),
      1e-5);
  source.of = Of::silu_gradient;
  source.matrix = gradient.const_data_ptr();
  source.other = up.const_data_ptr();
  expect_rounded(
      rounded(source, cuda::Fp8::e5m2),
      at::silu_backward(exact(gradient) * exact(up), exact(gate)),
      1e-5);
}

/// Rounds with a unit that is there, and notes the largest value.
Rounded rounded_by(
    const Tensor& matrix,
    double unit,
    cuda::Fp8 format,
    const Tensor& largest) {
  const auto bytes = at::TensorOptions(device).dtype(
      format == cuda::Fp8::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2);
  Rounded made{
      at::empty({matrix.size(0), matrix.size(1)}, bytes),
      at::empty({matrix.size(1), matrix.size(0)}, bytes),
      at::full({1}, unit, at::TensorOptions(device)),
      {}};
  const cuda::Fp8Target target{
      .format = format,
      .rows = made.rows.mutable_data_ptr(),
      .columns = made.columns.mutable_data_ptr(),
      .unit = made.unit.mutable_data_ptr<float>(),
      .largest = largest.mutable_data_ptr<float>()};
  EXPECT_EQ(
      cuda::to_fp8(
          source_of(matrix, Element::bf16),
          nullptr,
          target,
          cuda::current_stream(0)),
      nullptr);
  return made;
}

TEST(Fp8Kernels, NoteTheLargestValueAndHoldWhatIsBeyondTheRange) {
  at::manual_seed(6);
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {16, 16},
      {144, 272},
      {256, 1600}};
  for (const auto& [rows, columns] : shapes) {
    SCOPED_TRACE(::testing::Message() << rows << "x" << columns);
    const Tensor matrix =
        at::randn({rows, columns}, at::TensorOptions(device)).to(at::kBFloat16);
    const Tensor exact = matrix.to(at::kCPU, at::kDouble);
    const double most = exact.abs().max().item<double>();
    for (const auto format : {cuda::Fp8::e4m3, cuda::Fp8::e5m2}) {
      const double limit = format == cuda::Fp8::e4m3 ? 448 : 57344;
      const double unit = most / limit / 2; // half of the range that it needs
      const Tensor largest = at::zeros({1}, at::TensorOptions(device));
      const Rounded made = rounded_by(matrix, unit, format, largest);
      EXPECT_EQ(largest.item<double>(), most);
      const Tensor held =
          (exact / made.unit.item<float>()).clamp(-limit, limit);
      const Tensor found = made.rows.to(at::kCPU, at::kFloat).to(at::kDouble);
      EXPECT_TRUE(
          ((found - held).abs() <=
           held.abs() * (format == cuda::Fp8::e4m3 ? 0.0626 : 0.126) + 1e-2)
              .all()
              .item<bool>());
      EXPECT_EQ(found.abs().max().item<double>(), limit);
      EXPECT_TRUE(at::equal(
          made.rows.to(at::kCPU, at::kFloat),
          made.columns.to(at::kCPU, at::kFloat).t()));
      const Tensor larger = at::full({1}, 2 * most, at::TensorOptions(device));
      rounded_by(matrix, unit, format, larger);
      EXPECT_EQ(larger.item<float>(), static_cast<float>(2 * most));
    }
  }
}

TEST(Fp8Kernels, TransposeBytes) {
  at::manual_seed(7);
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {16, 16},
      {128, 256},
      {144, 272}};
  for (const auto& [rows, columns] : shapes) {
    const auto bytes = at::TensorOptions(device).dtype(at::kByte);
    const Tensor from = at::randint(256, {rows, columns}, bytes);
    const Tensor to = at::empty({columns, rows}, bytes);
    EXPECT_EQ(
        cuda::transpose_fp8(
            rows,
            columns,
            from.const_data_ptr(),
            to.mutable_data_ptr(),
            cuda::current_stream(0)),
        nullptr);
    EXPECT_TRUE(at::equal(to, from.t()));
  }
}

TEST(Fp8Kernels, InfiniteValuesShowWhateverTheUnit) {
  for (const double infinite :
       {std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    Tensor matrix =
        at::ones({144, 144}, at::TensorOptions(device).dtype(at::kBFloat16));
    matrix[131][77] = infinite;
    const Tensor largest = at::zeros({1}, at::TensorOptions(device));
    const Rounded made = rounded_by(matrix, 1, cuda::Fp8::e4m3, largest);
    EXPECT_EQ(largest.item<float>(), 1.0F);
    for (const Tensor& order : {made.rows, made.columns}) {
      const auto unlike =
          order.to(at::kCPU, at::kFloat).isnan().sum().item<std::int64_t>();
      EXPECT_EQ(unlike, 1);
    }
  }
}

TEST(Fp8Kernels, ZerosStayZerosAndWhatIsNoNumberShows) {
  Tensor matrix =
      at::zeros({16, 16}, at::TensorOptions(device).dtype(at::kBFloat16));
  const auto product_of_one = [&] {
    const Rounded made =
        rounded(source_of(matrix, Element::bf16), cuda::Fp8::e4m3);
    return (made.rows.to(at::kFloat) * made.unit).sum().item<float>();
  };
  EXPECT_EQ(product_of_one(), 0);
  matrix[3][5] = std::numeric_limits<float>::infinity();
  EXPECT_NE(product_of_one(), product_of_one());
  matrix[3][5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(product_of_one(), product_of_one());
}

} // namespace
} // namespace cairn::kernels::cuda_fp8_test
