#include "nn/moe/places.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>

#include <optional>

namespace cairn::nn {

at::Tensor counts_of(const at::Tensor& chosen, std::int64_t experts) {
  return at::zeros({experts}, chosen.options())
      .scatter_add_(0, chosen, at::ones_like(chosen));
}

// Found by sorting: a table of tokens by experts would grow with both.
at::Tensor places_of(const at::Tensor& chosen, const at::Tensor& counts) {
  const auto [sorted, order] =
      at::sort(chosen, std::optional<bool>(true)); // stable
  const at::Tensor begins = at::cumsum(counts, 0) - counts;
  return at::empty_like(chosen).scatter_(
      0,
      order,
      at::arange(chosen.numel(), chosen.options()) -
          begins.index_select(0, sorted));
}

at::Tensor ranks_of(
    const at::Tensor& numbers,
    const at::Tensor& chosen,
    const at::Tensor& counts) {
  const at::Tensor order = at::argsort(
      numbers,
      /*stable=*/true,
      /*dim=*/0,
      /*descending=*/true);
  return at::empty_like(chosen).scatter_(
      0,
      order,
      places_of(chosen.index_select(0, order), counts));
}

} // namespace cairn::nn
