#pragma once

#include "monitor/measures/parameter_watch.h"

#include <cstdint>
#include <string>
#include <unordered_map>

namespace torch::autograd::profiler {
struct ProfilerResult;
}

namespace cairn::monitor {

/// The modules of operators by the numbers of their events in the profile,
/// instead of those of at::RecordFunction. In a file of its own, since it needs
/// Kineto's headers.
std::unordered_map<std::uint64_t, std::string> operator_owners(
    const torch::autograd::profiler::ProfilerResult& seen,
    const OperatorModules& modules);

} // namespace cairn::monitor
