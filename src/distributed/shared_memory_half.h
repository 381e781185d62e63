#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstddef>

namespace cairn::distributed {

// Whole stretches at once, with the conversion instructions of the processor
// where it has them. Rounds to the nearest, ties to even.

void widen(const c10::Half* from, float* to, std::size_t count);
void narrow(const float* from, c10::Half* to, std::size_t count);
void widen(const c10::BFloat16* from, float* to, std::size_t count);
void narrow(const float* from, c10::BFloat16* to, std::size_t count);

} // namespace cairn::distributed
