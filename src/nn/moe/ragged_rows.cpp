#include "nn/moe/ragged_rows.h"

#include "kernels/internal/cuda/choice_rows.h"
#include "nn/linear/gpu_kernel.h"
#include "nn/moe/known_ends.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sort.h>

#include <optional>

namespace cairn::nn {
namespace {

constexpr std::int64_t unit_of_rows =
    8; ///< rows of a group on a GPU, or a multiple

/// Number of rows for all choices on a GPU, whatever their experts are.
std::int64_t rows_on_gpu(std::int64_t choices, std::int64_t experts) {
  return (choices + unit_of_rows * experts + unit_of_rows - 1) / unit_of_rows *
      unit_of_rows;
}

/// Sorts the choices by their experts on a GPU, as sorted_rows() does, in four
/// kernels.
RaggedRows rows_by_kernel(const at::Tensor& experts, std::int64_t count) {
  namespace cuda = kernels::cuda;
  const at::Tensor chosen = experts.contiguous();
  const cuda::ChoiceRows shape{
      .choices = chosen.numel(),
      .tokens = experts.size(1),
      .experts = count,
      .rows = rows_on_gpu(chosen.numel(), count),
      .unit = unit_of_rows};
  const auto ints = chosen.options().dtype(at::kInt);
  RaggedRows found{
      .groups = {at::empty({count}, ints)},
      .slots = at::empty_like(chosen),
      .comers = at::empty({shape.rows}, chosen.options()),
      .sources = at::empty({shape.rows}, chosen.options())};
  const at::Tensor workspace = at::empty({cuda::sort_workspace(shape)}, ints);
  run_kernel(chosen, "sorted choices", [&](void* stream) {
    return cuda::sort_choices(
        shape,
        chosen.const_data_ptr<std::int64_t>(),
        {.ends = found.groups.ends.mutable_data_ptr<std::int32_t>(),
         .slots = found.slots.mutable_data_ptr<std::int64_t>(),
         .comers = found.comers.mutable_data_ptr<std::int64_t>(),
         .sources = found.sources.mutable_data_ptr<std::int64_t>()},
        workspace.mutable_data_ptr<std::int32_t>(),
        stream);
  });
  return found;
}

RaggedRows sorted_rows(const at::Tensor& experts, const at::Tensor& counts) {
  const at::Tensor chosen = experts.reshape({-1});
  const std::int64_t choices = chosen.numel();
  const std::int64_t tokens = experts.size(1);
  std::int64_t all = choices;
  at::Tensor rows = counts;
  if (chosen.is_cuda()) {
    all = rows_on_gpu(choices, counts.numel());
    rows =
        counts.clamp_min(1).add_(unit_of_rows - 1).bitwise_and_(-unit_of_rows);
  }
  const at::Tensor ends = at::cumsum(rows, 0);
  // How far each expert's rows are moved by the empty ones before them.
  const at::Tensor moved = (ends - rows) - (at::cumsum(counts, 0) - counts);
  const auto [sorted, order] =
      at::sort(chosen, std::optional<bool>(true)); // stable
  const at::Tensor places =
      at::arange(choices, chosen.options()) + moved.index_select(0, sorted);
  RaggedRows found;
  found.groups.ends = ends.to(at::kInt);
  found.slots =
      at::empty_like(chosen).scatter_(0, order, places).view_as(experts);
  found.comers =
      at::full({all}, choices, chosen.options()).scatter_(0, places, order);
  found.sources = found.comers.remainder(tokens).masked_fill_(
      found.comers.eq(choices),
      tokens);
  return found;
}

} // namespace

RaggedRows ragged_rows(const at::Tensor& experts, const at::Tensor& counts) {
  if (experts.is_cuda() && kernels::cuda::has_kernels() &&
      counts.numel() <= kernels::cuda::most_sorted_experts) {
    return rows_by_kernel(experts, counts.numel());
  }
  RaggedRows found = sorted_rows(experts, counts);
  if (experts.is_cpu()) {
    found.groups.known_ends = read_ends(found.groups);
  }
  return found;
}

} // namespace cairn::nn
