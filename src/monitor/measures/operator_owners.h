#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace c10 {
struct TensorImpl;
}
namespace torch::autograd::profiler {
struct ProfilerResult;
}

namespace cairn::monitor {

/// The modules that parameters belong to.
using ParameterOwners = std::unordered_map<const c10::TensorImpl*, std::string>;

/// The modules of the operators that take parameters, by the numbers of their
/// events. In a file of its own, since it needs Kineto's headers.
std::unordered_map<std::uint64_t, std::string> operator_owners(
    const torch::autograd::profiler::ProfilerResult& seen,
    const ParameterOwners& owners);

} // namespace cairn::monitor
