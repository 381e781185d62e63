#pragma once

#include "kernels/internal/dropout_rows.h"

#include <cstdint>

namespace cairn::kernels::cpu {

/// Writes rows `begin` to `end` of `from` to `to`: 0 for elements that are
/// dropped, the others times the scale. `to` may be `from`.
void dropout_rows(
    const DropoutRows& x,
    const void* from,
    void* to,
    std::int64_t begin,
    std::int64_t end);

} // namespace cairn::kernels::cpu
