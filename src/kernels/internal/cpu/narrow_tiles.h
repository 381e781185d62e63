#pragma once

#include <cairn/kernels/stretch.h>

#include <functional>

namespace cairn::kernels::cpu {

/// Calls `update` for one part of a stretch with narrow states after the other,
/// with these states as floats, and rounds them again. The parts are small
/// enough to stay in a core's cache.
void for_each_wide_tile(
    const Stretch& stretch,
    const std::function<void(const Stretch&)>& update);

} // namespace cairn::kernels::cpu
