#include "zero/internal/policy.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace cairn::zero {

namespace {

Tier tier_of(config::OffloadDevice device) {
  switch (device) {
    case config::OffloadDevice::cpu:
      return Tier::cpu;
    case config::OffloadDevice::nvme:
      return Tier::nvme;
    case config::OffloadDevice::none:
      break;
  }
  return Tier::device;
}

std::string_view shown(Wire wire) {
  return wire == Wire::int4 ? "4 bits" : "8 bits";
}

std::string_view where(Tier tier) {
  switch (tier) {
    case Tier::cpu:
      return " (cpu)";
    case Tier::nvme:
      return " (nvme)";
    case Tier::device:
      break;
  }
  return "";
}

/// Where states rest that visit the device, and which part of them.
std::string places_of_states(const Policy& policy) {
  if (policy.optimizer_tier == Tier::cpu) {
    return fmt::format("cpu for {:.0f}% of it", 100 * policy.offloaded);
  }
  const std::string disk = fmt::format(
      "nvme for {:.0f}% of it",
      100 * (policy.offloaded - policy.offloaded_to_cpu));
  return policy.offloaded_to_cpu == 0
      ? disk
      : fmt::format("{}, cpu for {:.0f}%", disk, 100 * policy.offloaded_to_cpu);
}

} // namespace

Policy policy_of(const config::ZeroConfig& config) {
  const int stage = static_cast<int>(config.stage);
  Policy policy{
      .partition_optimizer = stage >= 1,
      .partition_gradients = stage >= 2,
      .partition_parameters = stage >= 3};
  if (config.offload_optimizer) {
    const config::OffloadOptimizerConfig& offload = *config.offload_optimizer;
    policy.optimizer_tier = tier_of(offload.device);
    policy.offloaded = offload.ratio;
    policy.offloaded_to_cpu = policy.optimizer_tier == Tier::nvme
        ? std::min(offload.cpu_ratio, offload.ratio) // "auto" may be less
        : 0;
    policy.states_visit_device = policy.optimizer_tier != Tier::device &&
        (offload.ratio < 1 || offload.update_on == config::OffloadUpdate::gpu);
  }
  if (config.offload_param) {
    policy.parameter_tier = tier_of(config.offload_param->device);
  }
  policy.shard_ranks = std::max(0, static_cast<int>(config.mics_shard_size));
  policy.second_copy_ranks = config.zero_hpz_partition_size > 1
      ? static_cast<int>(config.zero_hpz_partition_size)
      : 0;
  if (config.zero_quantized_weights) {
    policy.weight_wire = Wire::int8;
  }
  if (config.zero_quantized_nontrainable_weights) {
    policy.frozen_wire = Wire::int8;
  }
  if (config.zero_quantized_gradients) {
    policy.gradient_wire = Wire::int4;
  }
  if (stage == 0 && policy.optimizer_tier != Tier::device) {
    throw ConfigError(
        {.what = "the optimizer is offloaded from stage 1 on",
         .where = "zero_optimization.offload_optimizer",
         .values = "stage 0",
         .remedy = "set zero_optimization.stage to 1, 2 or 3"});
  }
  if (stage != 3 && policy.parameter_tier != Tier::device) {
    throw ConfigError(
        {.what = "parameters are offloaded at stage 3 only",
         .where = "zero_optimization.offload_param",
         .values = fmt::format("stage {}", stage),
         .remedy = "set zero_optimization.stage to 3"});
  }
  return policy;
}

std::string describe(const Policy& policy) {
  std::vector<std::string> parts;
  if (policy.partition_optimizer) {
    parts.push_back(
        policy.states_visit_device
            ? fmt::format(
                  "optimizer ({}, updated on the device)",
                  places_of_states(policy))
            : fmt::format("optimizer{}", where(policy.optimizer_tier)));
  }
  if (policy.partition_gradients) {
    parts.emplace_back("gradients");
  }
  if (policy.partition_parameters) {
    parts.push_back(fmt::format("parameters{}", where(policy.parameter_tier)));
  }
  std::string text = fmt::format(
      "ZeRO stage {}: {}",
      parts.size(),
      parts.empty() ? "nothing partitioned"
                    : fmt::format("{} partitioned", fmt::join(parts, ", ")));
  if (policy.shard_ranks > 0) {
    text += fmt::format(" within groups of {}", policy.shard_ranks);
  }
  if (policy.second_copy_ranks > 0) {
    text += fmt::format(
        ", a second copy of parameters within groups of {}",
        policy.second_copy_ranks);
  }
  const auto travels = [&](Wire wire, std::string_view what) {
    if (wire != Wire::exact) {
      text += fmt::format(", {} in {}", what, shown(wire));
    }
  };
  travels(policy.weight_wire, "weights gathered");
  travels(policy.frozen_wire, "frozen weights kept and gathered");
  travels(policy.gradient_wire, "gradients reduced");
  return text;
}

} // namespace cairn::zero
