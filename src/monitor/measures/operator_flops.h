#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::monitor {

/// Multiplications and additions of an operator that libtorch's profiler does
/// not count, from the shapes of its inputs; 0 for any other. Attention counts
/// as if nothing were masked.
std::uint64_t operator_flops(
    std::string_view name,
    const std::vector<std::vector<std::int64_t>>& shapes);

/// True for operators whose operations are pairs of a multiplication and an
/// addition: products of matrices, attention, convolutions.
bool is_product(std::string_view name);

} // namespace cairn::monitor
