#pragma once

#include <cairn/config/monitor_config.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cairn::monitor {

/// Scopes that tell a profile which pass an operator belongs to.
inline constexpr const char* forward_scope = "engine: forward";
inline constexpr const char* backward_scope = "engine: backward";

/// The work of a module and of the modules within it.
struct ModuleWork {
  std::int64_t parameters = 0;
  std::uint64_t forward_macs = 0; ///< multiplications with an addition each
  std::uint64_t forward_flops = 0;
  std::uint64_t backward_flops = 0;
  double forward_seconds = 0;
  double backward_seconds = 0;
};

/// The order of modules' paths: a module before its parts, numbers by their
/// value.
struct ModuleOrder {
  bool operator()(const std::string& a, const std::string& b) const;
};

/// By the module's path, such as "blocks.0.up"; "" is the model.
using ModuleProfile = std::map<std::string, ModuleWork, ModuleOrder>;

/// The model, and the modules on the way to a module, and the module itself:
/// "", "blocks", "blocks.0".
std::vector<std::string> way_to(const std::string& module);

/// The step that was profiled, and the run that it is a step of.
struct ProfiledStep {
  std::int64_t step = 0; ///< updates before it
  std::int64_t passes = 1;
  std::int64_t ranks = 1;
  std::int64_t data_parallel = 1;
  std::int64_t model_parallel = 1;
  std::int64_t micro_batch = 1;
  std::int64_t batch = 1;     ///< over all ranks
  double forward_seconds = 0; ///< of one pass, like `backward_seconds`
  double backward_seconds = 0;
  double update_seconds = 0; ///< reductions that are left, and the optimizer
  bool on_gpu = false;
};

/// A report like that of DeepSpeed's `flops_profiler`: a summary, the modules
/// with most parameters, operations and time at each depth, and a table of all
/// modules. Figures of modules are those of one forward and backward pass.
std::string flops_report(
    const ModuleProfile& modules,
    const ProfiledStep& step,
    const config::FlopsProfilerConfig& config);

} // namespace cairn::monitor
