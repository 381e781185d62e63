#include "kernels/formulas.h"
#include "kernels/internal/cuda/clip.h"
#include "kernels/internal/cuda/cuda.h"
#include "kernels/internal/cuda/norm_rows.h"
#include "kernels/internal/cuda/rotate.h"
#include "kernels/internal/cuda/score_rows.h"
#include "kernels/internal/cuda/sum_of_squares.h"
#include "kernels/internal/cuda/update_many.h"
#include "kernels/more_rows.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace cairn::bench {
namespace {

using at::Tensor;
namespace cuda = kernels::cuda;

/// One row of a table, or one formula, in the GPU's memory.
template <class Row>
Tensor on_gpu(const Row& row) {
  const Tensor bytes =
      at::empty({static_cast<std::int64_t>(sizeof(Row))}, at::kByte);
  std::memcpy(bytes.data_ptr(), &row, sizeof(Row));
  return bytes.to(at::kCUDA);
}

template <class Row>
const Row* row_of(const Tensor& bytes) {
  return static_cast<const Row*>(bytes.const_data_ptr());
}

void updates(const ShareTable& table, std::int64_t parameters) {
  const Tensor gradients = made({parameters});
  const std::string shape = fmt::format("{} M parameters", parameters >> 20U);
  cuda::SquaredRow squared{
      .values = gradients.const_data_ptr(),
      .type = kernels::Element::bf16,
      .count = parameters};
  const std::int64_t square_blocks = cuda::number_blocks(&squared, 1);
  const Tensor squares = on_gpu(squared);
  const Tensor parts = space({cuda::most_square_parts}, at::kDouble);
  const Tensor sum = space({1}, at::kDouble);
  table.row("sum of squares", shape, bytes_of(gradients), [&] {
    started(cuda::sum_of_squares(
        {row_of<cuda::SquaredRow>(squares), 1, square_blocks},
        parts.mutable_data_ptr<double>(),
        sum.mutable_data_ptr<double>(),
        stream()));
  });
  const Tensor factor = at::ones({1}, at::TensorOptions(at::kCUDA));
  table.row("clip factor", "1 norm", 20, [&] {
    started(cuda::clip_factor(
        floats(factor),
        1,
        {.limit = 1},
        sum.mutable_data_ptr<double>(),
        floats(factor),
        stream()));
  });
  using AdamW = kernels::Adam<true>;
  const Tensor weights = made({parameters}, at::kFloat);
  const Tensor average = at::zeros_like(weights);
  const Tensor square = at::zeros_like(weights);
  const Tensor copy = at::empty_like(gradients);
  cuda::ManyStretchesRow stretch{
      .stretch = {
          .weights = floats(weights),
          .gradients = gradients.const_data_ptr(),
          .gradient_type = kernels::Element::bf16,
          .copy = copy.mutable_data_ptr(),
          .states = {floats(average), floats(square)},
          .count = parameters}};
  const std::int64_t blocks = cuda::number_blocks(&stretch, 1);
  const Tensor stretches = on_gpu(stretch);
  const Tensor formula = on_gpu(AdamW{
      .one_minus_beta1 = 0.1F,
      .one_minus_beta2 = 0.05F,
      .eps = 1e-8F,
      .step_size = 1e-4F});
  const Tensor key = on_gpu(std::uint32_t{1});
  const double moved =
      2 * bytes_of(gradients) + 6 * bytes_of(weights); // the copy is as large
  table.row("AdamW of many stretches", shape, moved, [&] {
    started(cuda::update_many<AdamW>(
        {.rows = row_of<cuda::ManyStretchesRow>(stretches),
         .count = 1,
         .blocks = blocks,
         .formulas = formula.const_data_ptr(),
         .key = row_of<std::uint32_t>(key),
         .gradient_factor = floats(factor)},
        stream()));
  });
  table.row("scale", shape, 2 * bytes_of(gradients), [&] {
    started(cuda::scale(
        gradients.const_data_ptr(),
        kernels::Element::bf16,
        floats(factor),
        copy.mutable_data_ptr(),
        kernels::Element::bf16,
        parameters,
        stream()));
  });
}

/// A vocabulary of which other ranks have parts too.
void scores(const ShareTable& table, std::int64_t tokens) {
  constexpr std::int64_t columns = 50304 / 2;
  const Tensor values = made({tokens, columns});
  const Tensor labels = at::randint(
      columns,
      {tokens},
      at::TensorOptions(at::kCUDA).dtype(at::kLong));
  const Tensor highest = made({tokens}, at::kFloat);
  const Tensor sum = made({tokens}, at::kFloat);
  const Tensor label = made({tokens}, at::kFloat);
  const cuda::ScoreRows rows{
      values.mutable_data_ptr(),
      kernels::Element::bf16,
      tokens,
      columns,
      columns};
  const auto* const of_label = labels.const_data_ptr<std::int64_t>();
  const std::string shape = fmt::format("{} x {}", tokens, columns);
  table.row("sums of scores", shape, bytes_of(values), [&] {
    started(cuda::sum_scores(
        rows,
        of_label,
        {floats(highest), floats(sum), floats(label)},
        stream()));
  });
  table.row("scores to gradients", shape, 2 * bytes_of(values), [&] {
    started(cuda::scores_to_gradients(
        rows,
        of_label,
        floats(sum),
        floats(label),
        stream()));
  });
}

void rms_norms(
    const ShareTable& table,
    std::int64_t tokens,
    std::int64_t hidden) {
  const Tensor x = made({tokens, hidden});
  const Tensor other = made({tokens, hidden});
  const Tensor sum = at::empty_like(x);
  const Tensor y = at::empty_like(x);
  const Tensor gamma = made({hidden});
  const Tensor inverse = made({tokens}, at::kFloat);
  const cuda::NormRows rows{
      .rows = tokens,
      .columns = hidden,
      .centred = false};
  const Tensor parts = space({cuda::norm_parts(rows), hidden}, at::kFloat);
  const std::string shape = fmt::format("{} x {}", tokens, hidden);
  const cuda::NormStatistics statistics{.inverse = floats(inverse)};
  table.row("add and RMSNorm", shape, 4 * bytes_of(x), [&] {
    started(cuda::norm_forward(
        rows,
        {.x = x.const_data_ptr(),
         .added = other.const_data_ptr(),
         .gamma = gamma.const_data_ptr(),
         .sum = sum.mutable_data_ptr(),
         .y = y.mutable_data_ptr(),
         .statistics = statistics},
        stream()));
  });
  table.row(
      "RMSNorm backward, with the residual's",
      shape,
      4 * bytes_of(x),
      [&] {
        started(cuda::norm_backward(
            rows,
            {.gradient = y.const_data_ptr(),
             .through = other.const_data_ptr(),
             .x = x.const_data_ptr(),
             .gamma = gamma.const_data_ptr(),
             .statistics = statistics,
             .of_x = sum.mutable_data_ptr(),
             .gamma_parts = floats(parts)},
            stream()));
      });
}

void rotations(const ShareTable& table, std::int64_t batch) {
  const cuda::Rotation rotation{
      .batch = batch,
      .sequence = 2048,
      .heads = 32,
      .half = 32,
      .batch_step = std::int64_t{2048} * 32 * 64,
      .token_step = std::int64_t{32} * 64,
      .head_step = 64,
      .positions = 2048};
  const Tensor x = made({batch, 2048, 32, 64});
  const Tensor y = at::empty_like(x);
  const Tensor angles = made({2048, 32});
  table.row(
      "rotary positions",
      fmt::format("{} x 2048 x 32 x 64", batch),
      2 * bytes_of(x),
      [&] {
        started(cuda::rotate(
            rotation,
            x.const_data_ptr(),
            angles.const_data_ptr(),
            angles.const_data_ptr(),
            y.mutable_data_ptr(),
            stream()));
      });
}

} // namespace

void step_kernels(const ShareTable& table) {
  updates(table, std::int64_t{124} << 20U);
  scores(table, 8192);
  rms_norms(table, 16384, 2048);
  rotations(table, 8);
}

} // namespace cairn::bench
