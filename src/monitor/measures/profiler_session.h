#pragma once

#include "monitor/internal/profiled_devices.h"
#include "monitor/measures/parameter_watch.h"
#include "monitor/measures/traced_modules.h"

#include <memory>
#include <vector>

namespace torch::autograd::profiler {
struct ProfilerResult;
}

namespace cairn::monitor {

/// libtorch's profiler with the events of the CPU, the names of modules and,
/// where asked for, the kernels of a GPU. There can be one at a time.
class ProfilerSession {
 public:
  explicit ProfilerSession(ProfiledDevices devices);
  /// Discards what was seen, unless finish() was called.
  ~ProfilerSession();
  ProfilerSession(const ProfilerSession&) = delete;
  ProfilerSession& operator=(const ProfilerSession&) = delete;

  /// True when a profiler runs in this thread, this one or another.
  static bool any_runs();

  struct Seen {
    std::unique_ptr<torch::autograd::profiler::ProfilerResult> result;
    std::vector<TracedEvent> events; ///< for trace_notes()
  };
  /// Ends the session. `modules` are those of the operators that take
  /// parameters.
  Seen finish(const OperatorModules& modules = {});

 private:
  class ScopeWatch;
  std::unique_ptr<ScopeWatch> scopes_;
};

} // namespace cairn::monitor
