#pragma once

#include "monitor/measures/traced_modules.h"

#include <cstdint>
#include <vector>

namespace cairn::monitor {

/// One event of a profiler, of whatever kind.
struct ProfiledEvent {
  enum class Kind {
    operation, ///< an operator, or a node of autograd
    scope,
    kernel, ///< on a GPU, as its copies of memory are
    other,  ///< such as a call of CUDA's driver, which has numbers of its own
  };
  Kind kind = Kind::other;
  /// The event. Its id is its own only if it is an operator or a scope.
  TracedEvent event{};
  std::uint64_t started_by = 0; ///< of a kernel: the operator's id; 0: none
};

/// The operators and scopes, with the times of their kernels.
std::vector<TracedEvent> operators_and_scopes(
    std::vector<ProfiledEvent> events);

} // namespace cairn::monitor
