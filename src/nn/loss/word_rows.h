#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// Rows of a table by their numbers: at::embedding. Where the table is also the
/// weight of a linear layer, its gradient is not made a second time.
at::Tensor word_rows(const at::Tensor& table, const at::Tensor& ids);

} // namespace cairn::nn
