#pragma once

#include "monitor/internal/module_profile.h"
#include "monitor/internal/profiled_devices.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::monitor {

/// Counts the work of every module while it lives, with libtorch's profiler:
/// modules are told by nn::ModuleScope and by the parameters that operators
/// take. Passes are told by the scopes of module_profile.h.
class StepProfiler {
 public:
  /// A parameter by its name, "blocks.0.up.weight", and its number of elements.
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    std::int64_t elements = 0;
  };
  StepProfiler(ProfiledDevices devices, std::vector<Parameter> parameters);
  ~StepProfiler();
  StepProfiler(const StepProfiler&) = delete;
  StepProfiler& operator=(const StepProfiler&) = delete;

  /// False while another profiler runs: there can be one at a time.
  static bool can_start();

  /// Ends the profile. The figures are means of one of the `passes`; nullopt
  /// where ways to compute were tried, whose work would be among them.
  std::optional<ModuleProfile> finish(std::int64_t passes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace cairn::monitor
