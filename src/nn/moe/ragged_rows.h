#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/nn/mixture.h>

namespace cairn::nn {

/// Rows for all choices of experts, none dropped: those of the first expert,
/// then those of the second and so on. On a GPU the host does not know how many
/// rows an expert has, so the number of all rows depends on that of the choices
/// alone.
struct RaggedRows {
  RowGroups groups{};
  at::Tensor slots;   ///< row of each choice, [top_k, tokens]
  at::Tensor comers;  ///< choice of each row, [rows]; the number of all: none
  at::Tensor sources; ///< token of each row, [rows]; the number of all: none
};

/// Lays out choices, [top_k, tokens], with `counts` of them for each expert. On
/// a GPU every group has 8 rows or a multiple: its products want aligned groups
/// that are not empty.
RaggedRows ragged_rows(const at::Tensor& experts, const at::Tensor& counts);

} // namespace cairn::nn
