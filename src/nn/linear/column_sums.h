#pragma once

#include <ATen/core/Tensor.h>

namespace cairn::nn {

/// The sum of a matrix's rows.
at::Tensor column_sums(const at::Tensor& matrix);

} // namespace cairn::nn
