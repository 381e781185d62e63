#pragma once

#include <cstdint>
#include <functional>

namespace cairn::zero {

/// Calls body(begin, end) on parts that together are [0, count), on the threads
/// of libtorch's own operators: as many as at::get_num_threads(), and none of
/// them beside others that still spin after the last operator.
///
/// (at::parallel_for does so only in code compiled with OpenMP, which would
/// bring a second runtime along wherever libtorch has its own.)
void in_parallel(
    std::int64_t count,
    const std::function<void(std::int64_t begin, std::int64_t end)>& body);

} // namespace cairn::zero
