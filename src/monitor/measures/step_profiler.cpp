#include "monitor/internal/step_profiler.h"

#include "monitor/measures/module_work.h"
#include "monitor/measures/parameter_watch.h"
#include "monitor/measures/profiler_session.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <utility>

namespace cairn::monitor {
namespace {

/// The module of a parameter: "blocks.0.up" for "blocks.0.up.weight".
std::string module_of(const std::string& parameter) {
  const auto dot = parameter.rfind('.');
  return dot == std::string::npos ? std::string() : parameter.substr(0, dot);
}

std::vector<OwnedParameter> owned(
    const std::vector<StepProfiler::Parameter>& parameters) {
  std::vector<OwnedParameter> result;
  for (const StepProfiler::Parameter& each : parameters) {
    // A parameter of the model itself says nothing of a module.
    if (std::string module = module_of(each.name); !module.empty()) {
      result.push_back({each.tensor, std::move(module)});
    }
  }
  return result;
}

} // namespace

struct StepProfiler::State {
  State(ProfiledDevices devices, std::vector<Parameter> the_parameters)
      : parameters(std::move(the_parameters)),
        session(devices),
        watch(owned(parameters)) {}
  std::vector<Parameter> parameters;
  ProfilerSession session;
  ParameterWatch watch;
};

StepProfiler::StepProfiler(
    ProfiledDevices devices,
    std::vector<Parameter> parameters)
    : state_(std::make_unique<State>(devices, std::move(parameters))) {}

StepProfiler::~StepProfiler() = default;

bool StepProfiler::can_start() {
  return !ProfilerSession::any_runs();
}

std::optional<ModuleProfile> StepProfiler::finish(std::int64_t passes) {
  auto events = state_->session.finish(state_->watch.take()).events;
  if (has_trials(events)) {
    return std::nullopt;
  }
  ModuleProfile modules;
  modules[""]; // also of a model without parameters
  for (const Parameter& each : state_->parameters) {
    for (const std::string& around : way_to(module_of(each.name))) {
      modules[around].parameters += each.elements;
    }
  }
  add_work(std::move(events), passes, modules);
  return modules;
}

} // namespace cairn::monitor
