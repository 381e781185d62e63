#include "nn/loss/row_losses.h"

#include "kernels/internal/cpu/matrix_product.h"
#include "kernels/internal/cpu/score_row.h"
#include "kernels/internal/cuda/score_rows.h"
#include "kernels/internal/in_parallel.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/linear/product.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace cairn::nn {
namespace {

namespace cpu = kernels::cpu;

/// The values kept of a rank's rows of scores, which become exponentials.
struct RowSums {
  at::Tensor highest;
  at::Tensor sum;   ///< sum of e^(score - highest)
  at::Tensor label; ///< the label's score - highest
};

/// Sums each row while it is in the caches.
void sum_rows(
    const at::Tensor& scores,
    std::int64_t used,
    const at::Tensor& column,
    const RowSums& into) {
  if (cpu::has_matrix_product()) {
    // Columns whose sum is exact enough in float.
    constexpr std::int64_t piece = 4096;
    const std::int64_t columns = scores.size(1);
    float* const first = scores.mutable_data_ptr<float>();
    const auto* const labels = column.const_data_ptr<std::int64_t>();
    float* const highest = into.highest.mutable_data_ptr<float>();
    float* const sum = into.sum.mutable_data_ptr<float>();
    float* const label = into.label.mutable_data_ptr<float>();
    kernels::in_parallel(
        scores.size(0),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            float* const row = first + i * columns;
            highest[i] = cpu::highest_of(row, used);
            label[i] = row[labels[i]] - highest[i];
            double total = 0;
            for (std::int64_t j = 0; j < columns; j += piece) {
              const std::int64_t count = std::min(piece, columns - j);
              total += cpu::exponentials(
                  row + j,
                  std::clamp<std::int64_t>(used - j, 0, count),
                  count,
                  1,
                  highest[i]);
            }
            sum[i] = static_cast<float>(total);
          }
        });
  }
}

/// Replaces scores by e^(score - the highest of this rank).
RowSums exponentials(
    at::Tensor& scores,
    std::int64_t used,
    const at::Tensor& column) {
  if (has_cpu_kernels(scores)) {
    const std::vector<std::int64_t> rows{scores.size(0)};
    const auto made = [&] { return at::empty(rows, scores.options()); };
    const RowSums sums{made(), made(), made()};
    sum_rows(scores, used, column, sums);
    return sums;
  }
  if (used < scores.size(1)) {
    scores.narrow(1, used, scores.size(1) - used)
        .fill_(-std::numeric_limits<float>::infinity());
  }
  RowSums sums;
  // The limit keeps this finite for a rank that has nothing but padding.
  sums.highest =
      scores.amax(1).clamp_min_(std::numeric_limits<float>::lowest());
  scores.sub_(sums.highest.unsqueeze(1));
  sums.label = scores.gather(1, column).squeeze(1);
  sums.sum = scores.exp_().sum(1);
  return sums;
}

/// row_losses() by the GPU's kernels: scores stay in their type, and become
/// gradients in their place.
RowLosses losses_on_gpu(
    const at::Tensor& scores,
    const at::Tensor& labels,
    const at::Tensor& weights,
    const VocabularyHead& head) {
  const kernels::cuda::ScoreRows rows{
      .scores = scores.mutable_data_ptr(),
      .element = *kernels::element_of(scores.scalar_type()),
      .rows = scores.size(0),
      .columns = scores.size(1),
      .used = head.part.used};
  const at::Tensor columns = (labels - head.part.begin).contiguous();
  const auto* const column = columns.const_data_ptr<std::int64_t>();
  const at::Tensor factors =
      weights.defined() ? weights.contiguous() : at::Tensor();
  const float* const factor =
      factors.defined() ? factors.const_data_ptr<float>() : nullptr;
  const auto made = [&] {
    return at::empty({rows.rows}, scores.options().dtype(at::kFloat));
  };
  const at::Tensor gradients = weights.defined() ? scores : at::Tensor();
  if (head.group.size() == 1) {
    const at::Tensor each = made();
    run_kernel(scores, "cross entropy", [&](void* stream) {
      return kernels::cuda::cross_entropy(
          rows,
          column,
          factor,
          each.mutable_data_ptr<float>(),
          stream);
    });
    return {each, gradients};
  }
  const at::Tensor own_highest = made();
  const at::Tensor sum = made();
  const at::Tensor label = made();
  run_kernel(scores, "sums of scores", [&](void* stream) {
    return kernels::cuda::sum_scores(
        rows,
        column,
        {own_highest.mutable_data_ptr<float>(),
         sum.mutable_data_ptr<float>(),
         label.mutable_data_ptr<float>()},
        stream);
  });
  const at::Tensor highest = own_highest.clone();
  head.group.all_reduce(highest, distributed::ReduceOp::max).wait();
  // Both in one tensor, for one collective.
  const at::Tensor both =
      at::stack({label, sum * (own_highest - highest).exp()});
  head.group.all_reduce(both).wait();
  const at::Tensor log_sums = highest + both.select(0, 1).log();
  if (factor != nullptr) {
    run_kernel(scores, "gradients of scores", [&](void* stream) {
      return kernels::cuda::scores_to_gradients(
          rows,
          column,
          log_sums.const_data_ptr<float>(),
          factor,
          stream);
    });
  }
  return {log_sums - both.select(0, 0), gradients};
}

} // namespace

RowLosses row_losses(
    at::Tensor scores,
    const at::Tensor& labels,
    const at::Tensor& weights,
    const VocabularyHead& head) {
  if (has_row_kernels(scores)) {
    return losses_on_gpu(scores, labels, weights, head);
  }
  const VocabularyPart& part = head.part;
  scores = scores.to(at::kFloat);
  const at::Tensor place = labels - part.begin;
  const at::Tensor here = place.ge(0).logical_and_(place.lt(part.used));
  const at::Tensor column =
      place.masked_fill(here.logical_not(), 0).unsqueeze(1);

  const RowSums own = exponentials(scores, part.used, column);
  at::Tensor highest = own.highest.clone();
  head.group.all_reduce(highest, distributed::ReduceOp::max).wait();
  const at::Tensor lower = own.highest - highest;
  const at::Tensor share = lower.exp(); // from own exponentials to all ranks'
  // Both in one tensor, for one collective.
  const at::Tensor both = at::stack(
      {(own.label + lower).masked_fill_(here.logical_not(), 0),
       own.sum * share});
  head.group.all_reduce(both).wait();
  const at::Tensor sum = both.select(0, 1);
  RowLosses losses{sum.log() - both.select(0, 0), {}};
  if (weights.defined()) {
    scores.mul_((weights / sum * share).unsqueeze(1));
    scores.scatter_add_(
        1,
        column,
        (weights * here.to(at::kFloat)).neg_().unsqueeze(1));
    losses.gradients = std::move(scores);
  }
  return losses;
}

} // namespace cairn::nn
