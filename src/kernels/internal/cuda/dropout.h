#pragma once

#include "kernels/internal/dropout_rows.h"

namespace cairn::kernels::cuda {

/// Writes the matrix `from` to `to`: 0 for elements that are dropped, the
/// others times the scale. `to` may be `from`. See cuda.h for what pointers,
/// streams and results are.
[[nodiscard]] const char* dropout_rows(
    const DropoutRows& x,
    const void* from,
    void* to,
    void* stream);

} // namespace cairn::kernels::cuda
