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
