#include "monitor/internal/step_profiler.h"

#include "monitor/measures/module_work.h"
#include "monitor/measures/profiler_session.h"

#include <torch/csrc/autograd/profiler_kineto.h>

namespace cairn::monitor {
namespace {

/// The module of a parameter: "blocks.0.up" for "blocks.0.up.weight".
std::string module_of(const std::string& parameter) {
  const auto dot = parameter.rfind('.');
  return dot == std::string::npos ? std::string() : parameter.substr(0, dot);
}

} // namespace

struct StepProfiler::State {
  explicit State(ProfiledDevices devices) : session(devices) {}
  ProfilerSession session;
};

StepProfiler::StepProfiler(ProfiledDevices devices)
    : state_(std::make_unique<State>(devices)) {}

StepProfiler::~StepProfiler() = default;

bool StepProfiler::can_start() {
  return !ProfilerSession::any_runs();
}

ModuleProfile StepProfiler::finish(
    const std::vector<Parameter>& parameters,
    std::int64_t passes) {
  ParameterOwners owners;
  ModuleProfile modules;
  modules[""]; // also of a model without parameters
  for (const Parameter& each : parameters) {
    const std::string module = module_of(each.name);
    owners.emplace(each.tensor.unsafeGetTensorImpl(), module);
    for (const std::string& around : way_to(module)) {
      modules[around].parameters += each.elements;
    }
  }
  // A parameter of the model itself says nothing of a module.
  std::erase_if(owners, [](const auto& each) { return each.second.empty(); });
  add_work(state_->session.finish(owners).events, passes, modules);
  return modules;
}

} // namespace cairn::monitor
