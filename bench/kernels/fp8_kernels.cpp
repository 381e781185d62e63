#include "kernels/internal/cuda/fp8.h"
#include "kernels/internal/cuda/join_fp8.h"
#include "kernels/internal/cuda/norm_rows.h"
#include "kernels/more_rows.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace cairn::bench {
namespace {

using at::Tensor;
namespace cuda = kernels::cuda;

/// A matrix of fp8, in both orders.
struct Rounded {
  Rounded(std::int64_t rows, std::int64_t columns)
      : by_rows(space({rows, columns}, at::kByte)),
        by_columns(space({columns, rows}, at::kByte)),
        unit(at::ones({1}, at::TensorOptions(at::kCUDA))),
        largest(at::zeros({1}, at::TensorOptions(at::kCUDA))) {}

  cuda::Fp8Target target(cuda::Fp8 format) const {
    return {
        .format = format,
        .rows = by_rows.mutable_data_ptr(),
        .columns = by_columns.mutable_data_ptr(),
        .unit = floats(unit),
        .largest = floats(largest)};
  }

  Tensor by_rows, by_columns, unit, largest;
};

void norms(const ShareTable& table, std::int64_t tokens, std::int64_t hidden) {
  const Tensor x = made({tokens, hidden});
  const Tensor gamma = made({hidden});
  const Tensor beta = made({hidden});
  const Tensor mean = made({tokens}, at::kFloat);
  const Tensor inverse = made({tokens}, at::kFloat);
  const Rounded y(tokens, hidden);
  const std::string shape = fmt::format("{} x {}", tokens, hidden);
  table.row("LayerNorm to fp8", shape, 1.5 * bytes_of(x), [&] {
    started(cuda::norm_forward(
        {.rows = tokens, .columns = hidden},
        {.x = x.const_data_ptr(),
         .gamma = gamma.const_data_ptr(),
         .beta = beta.const_data_ptr(),
         .rounded = y.by_rows.mutable_data_ptr(),
         .unit = floats(y.unit),
         .largest = floats(y.largest),
         .statistics = {floats(mean), floats(inverse)}},
        stream()));
  });
  table.row("fp8 transposed", shape, bytes_of(x), [&] {
    started(cuda::transpose_fp8(
        tokens,
        hidden,
        y.by_rows.const_data_ptr(),
        y.by_columns.mutable_data_ptr(),
        stream()));
  });
}

void swiglu(const ShareTable& table, std::int64_t tokens, std::int64_t wide) {
  const Tensor up = made({tokens, wide});
  const Tensor gate = made({tokens, wide});
  const Tensor gradient = made({tokens, wide});
  const Rounded y(tokens, wide);
  const std::string shape = fmt::format("{} x {}", tokens, wide);
  cuda::Fp8Source source{
      .shape = {tokens, wide, kernels::Element::bf16},
      .matrix = up.const_data_ptr(),
      .of = cuda::Fp8Source::Of::silu_product,
      .sums = gate.const_data_ptr()};
  const auto round = [&](cuda::Fp8 format) {
    started(cuda::to_fp8(source, nullptr, y.target(format), stream()));
  };
  table.row("SwiGLU to fp8 in both orders", shape, 3 * bytes_of(up), [&] {
    round(cuda::Fp8::e4m3);
  });
  source.of = cuda::Fp8Source::Of::silu_gradient;
  source.matrix = gradient.const_data_ptr();
  source.other = up.const_data_ptr();
  table.row(
      "gradient of SwiGLU's gate to fp8 in both orders",
      shape,
      4 * bytes_of(up),
      [&] { round(cuda::Fp8::e5m2); });
}

void joined(const ShareTable& table, std::int64_t batch, std::int64_t groups) {
  const cuda::JoinedShape shape{
      .batch = batch,
      .tokens = 1024,
      .groups = groups,
      .queries = 1,
      .size = 64};
  const std::int64_t rows = batch * shape.tokens;
  const std::int64_t columns = groups * 3 * shape.size;
  const Tensor x = made({3, batch, shape.tokens, groups, shape.size});
  const auto heads = [&](std::int64_t which) {
    const Tensor part = x[which];
    return cuda::Heads{
        part.const_data_ptr(),
        part.stride(0),
        part.stride(1),
        part.stride(2)};
  };
  const Tensor sums = space(
      {cuda::fp8_sum_parts({rows, columns, kernels::Element::bf16}), columns},
      at::kFloat);
  const Rounded y(rows, columns);
  cuda::Fp8Target target = y.target(cuda::Fp8::e5m2);
  target.column_sums = floats(sums);
  table.row(
      "gradients of heads joined to fp8, column sums",
      fmt::format("{} x 1024 x {} x 64", batch, groups),
      2 * bytes_of(x),
      [&] {
        started(cuda::join_heads_to_fp8(
            shape,
            {heads(0), heads(1), heads(2)},
            {},
            target,
            stream()));
      });
}

} // namespace

void fp8_kernels(const ShareTable& table) {
  norms(table, 16384, 1600);
  swiglu(table, 16384, 8192);
  joined(table, 16, 25);
}

} // namespace cairn::bench
