#pragma once

#include "kernels/internal/cuda/fp8.h"
#include "kernels/internal/cuda/join_heads.h"

namespace cairn::kernels::cuda {

/// Writes what join_heads() would write in fp8, with the unit that is there and
/// with sums of columns for fp8_sum_parts(). Rows and columns of the joined
/// tensor are multiples of 16.
[[nodiscard]] const char* join_heads_to_fp8(
    const JoinedShape& shape,
    const HeadsOfAll& from,
    const Angles& angles,
    const Fp8Target& target,
    void* stream);

} // namespace cairn::kernels::cuda
