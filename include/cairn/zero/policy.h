#pragma once

#include <cairn/config/zero_config.h>

#include <string>

namespace cairn::zero {

/// Where something rests between its uses.
enum class Tier { device, cpu, nvme };

/// A ZeRO stage as plain data: what is cut into shards, and where it rests.
/// Every stage runs through the same code, which asks only this.
struct Policy {
  bool partition_optimizer = false;
  bool partition_gradients = false;
  bool partition_parameters = false;
  Tier optimizer_tier = Tier::device;
  Tier parameter_tier = Tier::device;
  bool operator==(const Policy&) const = default;
};

/// Throws ConfigError for tiers that the stage has no use for.
Policy policy_of(const config::ZeroConfig& config);

/// Such as `stage 2: optimizer (cpu) and gradients partitioned`.
std::string describe(const Policy& policy);

} // namespace cairn::zero
