#pragma once

#include <c10/util/Half.h>

#include <cstddef>

namespace cairn::distributed {

// Many at once, with the conversion instructions of the processor where it has
// them: compilers do not find these by themselves. Rounds to the nearest, ties
// to even.

void widen_halves(const c10::Half* from, float* to, std::size_t count);
void narrow_to_halves(const float* from, c10::Half* to, std::size_t count);

} // namespace cairn::distributed
