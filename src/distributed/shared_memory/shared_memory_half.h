#pragma once

#include <c10/util/Half.h>

#include <cstddef>

namespace cairn::distributed {

// Convert many values at once, with the processor's conversion instructions
// where it has them: compilers do not find these by themselves. They round to
// the nearest value, ties to even.

void widen_halves(const c10::Half* from, float* to, std::size_t count);
void narrow_to_halves(const float* from, c10::Half* to, std::size_t count);

} // namespace cairn::distributed
