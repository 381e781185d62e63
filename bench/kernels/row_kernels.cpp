#include "kernels/internal/cuda/column_sums.h"
#include "kernels/internal/cuda/dropout.h"
#include "kernels/internal/cuda/fp8.h"
#include "kernels/internal/cuda/join_heads.h"
#include "kernels/internal/cuda/norm_rows.h"
#include "kernels/internal/cuda/score_rows.h"
#include "kernels/internal/cuda/swiglu.h"
#include "kernels/internal/cuda/table_rows.h"
#include "kernels/more_rows.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>

// row_kernels_bench
//
// The kernels on rows of matrices in bf16, at the sizes of GPT-2 124M and 1.5B.
// A table in Markdown: the time of each, the bytes that it must read and write
// at least, and the share that this is of the GPU's copy speed, which is
// measured first.

namespace {

using namespace cairn;
using at::Tensor;
namespace cuda = kernels::cuda;
using bench::floats;
using bench::made;
using bench::started;
using bench::stream;
using Table = bench::ShareTable;

/// Bytes per second of a large copy, read and written.
double copy_speed() {
  const Tensor from = made({1 << 29});
  Tensor to = at::empty_like(from);
  return 2 * bench::bytes_of(from) /
      bench::gpu_seconds([&] { to.copy_(from); });
}

void cross_entropy(const Table& table, std::int64_t tokens) {
  const Tensor scores = made({tokens, 50304});
  const Tensor labels = at::randint(
      50257,
      {tokens},
      at::TensorOptions(at::kCUDA).dtype(at::kLong));
  const Tensor weights = at::ones({tokens}, at::TensorOptions(at::kCUDA));
  const Tensor losses = at::empty_like(weights);
  const cuda::ScoreRows rows{
      scores.mutable_data_ptr(),
      kernels::Element::bf16,
      tokens,
      50304,
      50257};
  const auto* const columns = labels.const_data_ptr<std::int64_t>();
  const auto bytes = static_cast<double>(scores.nbytes());
  const std::string shape = fmt::format("{} x 50304", tokens);
  table.row("cross entropy, with gradients", shape, 2 * bytes, [&] {
    started(cuda::cross_entropy(
        rows,
        columns,
        floats(weights),
        floats(losses),
        stream()));
  });
  table.row("cross entropy, losses only", shape, bytes, [&] {
    started(
        cuda::cross_entropy(rows, columns, nullptr, floats(losses), stream()));
  });
}

void norms(const Table& table, std::int64_t tokens, std::int64_t hidden) {
  const Tensor x = made({tokens, hidden});
  const Tensor other = made({tokens, hidden});
  const Tensor y = at::empty_like(x);
  const Tensor sum = at::empty_like(x);
  const Tensor gamma = made({hidden});
  const Tensor beta = made({hidden});
  const Tensor mean = made({tokens}, at::kFloat);
  const Tensor inverse = made({tokens}, at::kFloat);
  const cuda::NormRows rows{.rows = tokens, .columns = hidden};
  const std::int64_t parts = cuda::norm_parts(rows);
  const Tensor gamma_parts = made({parts, hidden}, at::kFloat);
  const Tensor beta_parts = made({parts, hidden}, at::kFloat);
  const auto bytes = static_cast<double>(x.nbytes());
  const std::string shape = fmt::format("{} x {}", tokens, hidden);
  const cuda::NormStatistics statistics{floats(mean), floats(inverse)};
  cuda::NormForward forward{
      .x = x.const_data_ptr(),
      .gamma = gamma.const_data_ptr(),
      .beta = beta.const_data_ptr(),
      .y = y.mutable_data_ptr(),
      .statistics = statistics};
  table.row("LayerNorm", shape, 2 * bytes, [&] {
    started(cuda::norm_forward(rows, forward, stream()));
  });
  forward.added = other.const_data_ptr();
  forward.sum = sum.mutable_data_ptr();
  table.row("add and LayerNorm", shape, 4 * bytes, [&] {
    started(cuda::norm_forward(rows, forward, stream()));
  });
  table.row("LayerNorm backward, with the residual's", shape, 4 * bytes, [&] {
    started(cuda::norm_backward(
        rows,
        {.gradient = y.const_data_ptr(),
         .through = other.const_data_ptr(),
         .x = x.const_data_ptr(),
         .gamma = gamma.const_data_ptr(),
         .statistics = statistics,
         .of_x = sum.mutable_data_ptr(),
         .gamma_parts = floats(gamma_parts),
         .beta_parts = floats(beta_parts)},
        stream()));
  });
  const Tensor result = at::empty_like(gamma);
  table.row(
      "sum of its parts",
      fmt::format("{} x {}", parts, hidden),
      static_cast<double>(gamma_parts.nbytes()),
      [&] {
        started(cuda::sum_of_parts(
            floats(gamma_parts),
            parts,
            hidden,
            result.mutable_data_ptr(),
            kernels::Element::bf16,
            false,
            stream()));
      });
}

void columns(const Table& table, std::int64_t tokens, std::int64_t wide) {
  const Tensor gradient = made({tokens, wide});
  const Tensor x = made({tokens, wide});
  const cuda::MatrixShape matrix{tokens, wide, kernels::Element::bf16};
  const Tensor parts = made({cuda::column_parts(matrix), wide}, at::kFloat);
  const auto bytes = static_cast<double>(x.nbytes());
  const std::string shape = fmt::format("{} x {}", tokens, wide);
  table.row("column sums", shape, bytes, [&] {
    started(cuda::column_sums(
        matrix,
        gradient.const_data_ptr(),
        floats(parts),
        stream()));
  });
  table.row("GELU backward with column sums", shape, 3 * bytes, [&] {
    started(cuda::gelu_backward(
        matrix,
        cuda::Gelu::tanh,
        gradient.const_data_ptr(),
        x.const_data_ptr(),
        gradient.mutable_data_ptr(),
        floats(parts),
        stream()));
  });
}

/// A matrix and a gradient of GELU become fp8, in both orders.
void fp8(const Table& table, std::int64_t tokens, std::int64_t wide) {
  const Tensor x = made({tokens, wide});
  const Tensor sums = made({tokens, wide});
  const auto bytes = at::TensorOptions(at::kCUDA).dtype(at::kByte);
  const Tensor rows = at::empty({tokens, wide}, bytes);
  const Tensor columns = at::empty({wide, tokens}, bytes);
  cuda::Fp8Source source{
      .shape = {tokens, wide, kernels::Element::bf16},
      .matrix = x.const_data_ptr()};
  const Tensor parts = made({cuda::largest_count(source.shape)}, at::kFloat);
  const Tensor of_columns =
      made({cuda::fp8_sum_parts(source.shape), wide}, at::kFloat);
  const Tensor unit = made({1}, at::kFloat);
  cuda::Fp8Target target{
      .rows = rows.mutable_data_ptr(),
      .columns = columns.mutable_data_ptr(),
      .unit = floats(unit)};
  const auto size = static_cast<double>(x.nbytes());
  const std::string shape = fmt::format("{} x {}", tokens, wide);
  const auto round = [&] {
    started(cuda::to_fp8(source, floats(parts), target, stream()));
  };
  table.row("largest value", shape, size, [&] {
    started(cuda::largest_parts(source, floats(parts), stream()));
  });
  table.row("to fp8 in both orders", shape, 2 * size, round);
  source.of = cuda::Fp8Source::Of::gelu;
  table.row("GELU to fp8 in both orders", shape, 2 * size, round);
  source.of = cuda::Fp8Source::Of::gelu_gradient;
  source.sums = sums.const_data_ptr();
  target.format = cuda::Fp8::e5m2;
  target.column_sums = floats(of_columns);
  table.row(
      "gradient of GELU to fp8 in both orders, column sums",
      shape,
      3 * size,
      round);
}

void dropout(const Table& table, std::int64_t tokens, std::int64_t hidden) {
  constexpr std::int64_t sequence = 1024;
  const Tensor x = made({tokens, hidden});
  const Tensor samples = at::arange(
      tokens / sequence,
      at::TensorOptions(at::kCUDA).dtype(at::kLong));
  kernels::DropoutRows rows{
      .rows = tokens,
      .columns = hidden,
      .element = kernels::Element::bf16,
      .tokens = sequence,
      .samples = samples.const_data_ptr<std::int64_t>(),
      .early = sequence,
      .key = 1234};
  rows.drop(0.1);
  table.row(
      "dropout",
      fmt::format("{} x {}", tokens, hidden),
      2 * static_cast<double>(x.nbytes()),
      [&] {
        started(cuda::dropout_rows(
            rows,
            x.const_data_ptr(),
            x.mutable_data_ptr(),
            stream()));
      });
}

void swiglu(const Table& table, std::int64_t tokens, std::int64_t wide) {
  const Tensor gate = made({tokens, wide});
  const Tensor up = made({tokens, wide});
  const Tensor y = at::empty_like(gate);
  const Tensor of_up = at::empty_like(gate);
  const auto bytes = static_cast<double>(gate.nbytes());
  const std::string shape = fmt::format("{} x {}", tokens, wide);
  table.row("SwiGLU", shape, 3 * bytes, [&] {
    started(cuda::swiglu_forward(
        kernels::Element::bf16,
        gate.numel(),
        gate.const_data_ptr(),
        up.const_data_ptr(),
        y.mutable_data_ptr(),
        stream()));
  });
  table.row("SwiGLU backward", shape, 5 * bytes, [&] {
    started(cuda::swiglu_backward(
        kernels::Element::bf16,
        gate.numel(),
        y.const_data_ptr(),
        gate.const_data_ptr(),
        up.const_data_ptr(),
        y.mutable_data_ptr(),
        of_up.mutable_data_ptr(),
        stream()));
  });
}

void heads(const Table& table, std::int64_t batch, std::int64_t groups) {
  const cuda::JoinedShape shape{
      .batch = batch,
      .tokens = 1024,
      .groups = groups,
      .queries = 1,
      .size = 64};
  const Tensor q = made({batch, shape.tokens, groups, shape.size});
  const Tensor k = at::empty_like(q);
  const Tensor v = at::empty_like(q);
  const auto of = [&](const Tensor& x) {
    return cuda::Heads{
        x.const_data_ptr(),
        x.stride(0),
        x.stride(1),
        x.stride(2)};
  };
  const Tensor joined = made({batch, shape.tokens, groups, 3, shape.size});
  const Tensor parts =
      made({cuda::joined_parts(shape), groups * 3 * shape.size}, at::kFloat);
  const Tensor table_of_angles = made({shape.tokens, shape.size / 2});
  const cuda::Angles angles{
      table_of_angles.const_data_ptr(),
      table_of_angles.const_data_ptr(),
      shape.tokens};
  const std::string sizes = fmt::format("{} x 1024 x {} x 64", batch, groups);
  const auto bytes = 2 * static_cast<double>(joined.nbytes());
  const auto join = [&](const char* name, const cuda::Angles& by, float* sums) {
    table.row(name, sizes, bytes, [&] {
      started(cuda::join_heads(
          shape,
          {of(q), of(k), of(v)},
          by,
          joined.mutable_data_ptr(),
          sums,
          stream()));
    });
  };
  join("gradients of heads joined, column sums", {}, floats(parts));
  join("gradients of heads turned back and joined", angles, nullptr);
  table.row("heads apart and turned", sizes, bytes, [&] {
    started(cuda::split_heads(
        shape,
        joined.const_data_ptr(),
        angles,
        q.mutable_data_ptr(),
        k.mutable_data_ptr(),
        v.mutable_data_ptr(),
        stream()));
  });
}

/// Words as often as in a text: the number n about as often as 1 / n.
void words(const Table& table, std::int64_t tokens, std::int64_t hidden) {
  constexpr std::int64_t vocabulary = 50304;
  const Tensor gradients = made({tokens, hidden});
  const Tensor sums = made({vocabulary, hidden}, at::kFloat);
  const Tensor drawn = at::rand({tokens}, at::TensorOptions(at::kCUDA));
  const Tensor ids =
      (drawn * std::log(double{vocabulary})).exp().to(at::kLong) - 1;
  const auto [numbers, order] = at::sort(ids);
  const cuda::PickedRows picked{
      .gradients = gradients.const_data_ptr(),
      .count = tokens,
      .columns = hidden,
      .numbers = numbers.const_data_ptr<std::int64_t>(),
      .order = order.const_data_ptr<std::int64_t>()};
  const Tensor scratch = made({cuda::table_scratch(picked)}, at::kFloat);
  const auto [distinct, places, counts] = at::_unique2(ids);
  const double bytes = static_cast<double>(gradients.nbytes()) +
      2 * 4 * static_cast<double>(distinct.numel() * hidden);
  const std::string shape = fmt::format("{} x {}", tokens, hidden);
  table.row("gradients of words", shape, bytes, [&] {
    started(cuda::add_to_table(
        picked,
        floats(scratch),
        sums.mutable_data_ptr(),
        kernels::Element::fp32,
        stream()));
  });
  table.row("words sorted first", shape, 16 * static_cast<double>(tokens), [&] {
    at::sort(ids, std::optional<bool>(true), 0);
  });
}

} // namespace

int main() {
  try {
    const at::NoGradGuard no_grad;
    const Table table(Table::Of::bytes, copy_speed());
    cross_entropy(table, 8192);
    norms(table, 65536, 768);
    norms(table, 16384, 1600);
    columns(table, 65536, 3072);
    columns(table, 16384, 6400);
    dropout(table, 65536, 768);
    swiglu(table, 16384, 8192);
    heads(table, 64, 12);
    heads(table, 16, 25);
    words(table, 65536, 768);
    words(table, 16384, 1600);
    fp8(table, 65536, 768);
    fp8(table, 16384, 6400);
    bench::step_kernels(table);
    bench::fp8_kernels(table);
    bench::expert_kernels(table);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "row_kernels_bench: {}\n", error.what());
    return 1;
  }
}
