#pragma once

#include "zero/reduce/wire.h"

#include <cairn/config/zero_config.h>

#include <string>

namespace cairn::zero {

/// The memory for values between their uses.
enum class Tier { device, cpu, nvme };

/// A ZeRO stage as plain data: the state that is cut into shards, the ranks
/// that share it, its memory and its form on the wire. Every stage runs through
/// the same code, which asks only this.
struct Policy {
  bool partition_optimizer = false;
  bool partition_gradients = false;
  bool partition_parameters = false;
  Tier optimizer_tier = Tier::device;
  /// Part of the optimizer's states that leaves the device for that tier.
  double offloaded = 1;
  /// Of all states the part of `offloaded` that is in host memory although the
  /// tier is a disk.
  double offloaded_to_cpu = 0;
  /// States visit the device for the update, rather than gradients the CPU.
  bool states_visit_device = false;
  Tier parameter_tier = Tier::device;
  /// Number of ranks that share one copy of the partitioned state; each group
  /// of that size has its own copy (MiCS, HSDP). 0: all ranks that train share
  /// one.
  int shard_ranks = 0;
  /// Number of ranks that share a second copy of the parameters, which the
  /// first gather after an update makes (ZeRO++'s hpZ). 0: no second copy.
  int second_copy_ranks = 0;
  /// Number of a group's ranks on one node: a gather brings every part to each
  /// node once, then spreads it within the node. 0: a gather is one call.
  int gather_ranks = 0;
  Wire weight_wire = Wire::exact;
  Wire frozen_wire = Wire::exact; ///< frozen weights rest like this, too
  Wire gradient_wire = Wire::exact;

  /// True when the update runs on the CPU although a device trains.
  bool updates_on_cpu() const {
    return optimizer_tier != Tier::device && !states_visit_device;
  }
  bool operator==(const Policy&) const = default;
};

/// The policy of a stage. Throws ConfigError for tiers that the stage has no
/// use for.
Policy policy_of(const config::ZeroConfig& config);

/// Describes a policy for people: `stage 2: optimizer (cpu) and gradients
/// partitioned`.
std::string describe(const Policy& policy);

} // namespace cairn::zero
