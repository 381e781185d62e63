#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

namespace cairn::distributed {

/// The type in which values of `dtype` are reduced on the CPU. Half-precision
/// values are added up in fp32 and rounded once; types that Gloo cannot reduce
/// become types that it can. nullopt for values that cannot be reduced at all
/// (complex numbers, quantised values).
std::optional<c10::ScalarType> wire_dtype(c10::ScalarType dtype);

} // namespace cairn::distributed
