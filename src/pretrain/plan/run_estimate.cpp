#include "pretrain/plan/run_estimate.h"

#include "engine/internal/device_memory.h"
#include "plan/internal/search.h"

#include <c10/core/Device.h>
#include <cairn/base/error.h>
#include <cairn/plan/from_config.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::pretrain {

namespace {

std::string gigabytes(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.0f} MB", bytes / 1e6)
                     : fmt::format("{:.1f} GB", bytes / 1e9);
}

std::string seconds(double time) {
  return time < 1 ? fmt::format("{:.3g} ms", time * 1e3)
                  : fmt::format("{:.3g} s", time);
}

} // namespace

RunPrediction predict_run(
    const model::ModelDescription& model,
    const config::Config& config,
    const distributed::World& world) {
  RunPrediction prediction;
  const at::Device device(world.device_name());
  if (device.is_cuda()) {
    const std::string name = engine::hardware_name(device);
    const auto machine = plan::gpu_machine_here(name);
    if (!machine) {
      prediction.why_not = fmt::format("there is no description of a {}", name);
      return prediction;
    }
    prediction.machine = *machine;
  } else {
    prediction.machine =
        plan::cpu_machine(world.environment().local_world_size);
  }
  try {
    prediction.training =
        plan::on_machine(plan::training_of(model, config), prediction.machine);
    prediction.estimate = plan::estimate(
        prediction.training,
        plan::layout_of(model, config),
        prediction.machine);
  } catch (const ConfigError& error) {
    prediction.why_not = error.problem().what;
  }
  return prediction;
}

std::string describe(const RunPrediction& prediction) {
  if (!prediction.estimate) {
    return "no estimate of memory and time: " + prediction.why_not;
  }
  const plan::Estimate& estimate = *prediction.estimate;
  return fmt::format(
      "by plan: {} of each rank's {} on {}, {} an iteration{}",
      gigabytes(estimate.memory.total()),
      gigabytes(prediction.machine.gpu.memory_bytes),
      prediction.machine.gpu.name,
      seconds(estimate.iteration_seconds),
      estimate.fits ? "" : "; it does not fit: " + estimate.lacks);
}

std::string memory_by_plan(const RunPrediction& prediction) {
  if (!prediction.estimate) {
    return describe(prediction);
  }
  std::string text = describe(prediction);
  for (auto [name, bytes] : plan::parts_of(prediction.estimate->memory)) {
    if (bytes > 0) {
      std::ranges::replace(name, '_', ' ');
      text += fmt::format("\n  {:<20} {:>9}", name, gigabytes(bytes));
    }
  }
  if (!prediction.estimate->fits) {
    const auto remedy = plan::cheapest_remedy(
        prediction.training,
        prediction.estimate->layout,
        prediction.machine);
    if (remedy) {
      text += fmt::format(
          "\nThe cheapest change that makes it fit by plan: {} ({} of each "
          "rank, {} an iteration)",
          remedy->change,
          gigabytes(remedy->estimate.memory.total()),
          seconds(remedy->estimate.iteration_seconds));
    }
  }
  return text;
}

std::optional<monitor::RunEstimate> log_event(
    const RunPrediction& prediction,
    std::int64_t step) {
  if (!prediction.estimate) {
    return std::nullopt;
  }
  monitor::RunEstimate event{
      .step = step,
      .machine = prediction.machine.gpu.name,
      .iteration_seconds = prediction.estimate->iteration_seconds};
  for (const auto& [name, bytes] :
       plan::parts_of(prediction.estimate->memory)) {
    if (bytes > 0) {
      event.bytes.push_back({name, bytes});
    }
  }
  event.bytes.push_back({"total", prediction.estimate->memory.total()});
  return event;
}

} // namespace cairn::pretrain
