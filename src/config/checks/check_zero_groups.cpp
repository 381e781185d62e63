#include "config/checks/check.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace cairn::config {
namespace {

/// A key of zero_optimization that is set, and the checks that it needs.
class SetKey {
 public:
  SetKey(const Config& config, std::string name)
      : config_(config),
        zero_(config.deepspeed.zero),
        name_("zero_optimization." + std::move(name)) {}

  void needs_stage(int least, const char* why) const {
    const int stage = static_cast<int>(zero_.stage);
    if (stage < least) {
      refuse_it(
          fmt::format("{}, not stage {}", why, stage),
          fmt::format("set zero_optimization.stage to {}", least));
    }
  }

  void divides_ranks(std::int64_t size) const {
    // ZeRO works among all ranks with the same parameters.
    const std::int64_t ranks =
        config_.data_parallel_size * config_.flags.distributed.context_parallel;
    if (ranks % size != 0) {
      refuse_it(fmt::format(
          "groups of {} do not divide the data-parallel size {}",
          size,
          ranks));
    }
  }

  void excludes(bool on, const std::string& other, const std::string& why)
      const {
    if (on) {
      refuse_it(
          fmt::format("it does not go with {}: {}", other, why),
          "drop one of the two");
    }
  }

  void excludes_offloaded_parameters() const {
    excludes(
        zero_.offload_param &&
            zero_.offload_param->device != OffloadDevice::none,
        "offload_param",
        "it would bring back to the device what rests elsewhere");
  }

 private:
  [[noreturn]] void refuse_it(std::string what, std::string remedy = "") const {
    refuse(config_, name_, std::move(what), std::move(remedy));
  }

  const Config& config_;
  const ZeroConfig& zero_;
  std::string name_;
};

void check_shard_groups(const Config& config) {
  const ZeroConfig& zero = config.deepspeed.zero;
  if (zero.mics_shard_size == -1) {
    return;
  }
  const SetKey key(config, "mics_shard_size");
  if (zero.mics_shard_size < 2) {
    refuse(
        config,
        "zero_optimization.mics_shard_size",
        fmt::format(
            "{} ranks cannot share a copy of the model state",
            zero.mics_shard_size),
        "give 2 or more; -1 shares it between all, and stage 0 not at all");
  }
  key.needs_stage(1, "there are shards from stage 1 on");
  key.divides_ranks(zero.mics_shard_size);
  key.excludes(
      zero.offload_optimizer &&
          zero.offload_optimizer->device != OffloadDevice::none,
      "offload_optimizer",
      "gradients are summed over the groups before they leave the device");
  key.excludes(
      zero.zero_hpz_partition_size > 1,
      "zero_hpz_partition_size",
      "every group has a copy of the parameters already");
  key.excludes(
      zero.zero_quantized_gradients,
      "zero_quantized_gradients",
      "sums over the groups are not packed");
}

void check_hierarchical_gather(const Config& config) {
  const ZeroConfig& zero = config.deepspeed.zero;
  if (!zero.mics_hierarchical_params_gather) {
    return;
  }
  const SetKey key(config, "mics_hierarchical_params_gather");
  key.needs_stage(3, "parameters are gathered at stage 3");
  if (zero.mics_shard_size == -1) {
    refuse(
        config,
        "zero_optimization.mics_hierarchical_params_gather",
        "it belongs to mics_shard_size",
        "set zero_optimization.mics_shard_size");
  }
}

void check_second_copy(const Config& config) {
  const std::int64_t ranks = config.deepspeed.zero.zero_hpz_partition_size;
  if (ranks > 1) {
    const SetKey key(config, "zero_hpz_partition_size");
    key.needs_stage(3, "parameters are gathered at stage 3");
    key.divides_ranks(ranks);
    key.excludes_offloaded_parameters();
  }
}

void check_packed(const Config& config) {
  const ZeroConfig& zero = config.deepspeed.zero;
  if (zero.zero_quantized_weights) {
    const SetKey key(config, "zero_quantized_weights");
    key.needs_stage(3, "weights are gathered at stage 3");
    key.excludes_offloaded_parameters();
  }
  if (zero.zero_quantized_nontrainable_weights) {
    const SetKey key(config, "zero_quantized_nontrainable_weights");
    key.needs_stage(3, "frozen weights are partitioned at stage 3");
    key.excludes_offloaded_parameters();
  }
  if (zero.zero_quantized_gradients) {
    SetKey(config, "zero_quantized_gradients")
        .needs_stage(
            1,
            "gradients are reduced to their owners from stage 1 on");
  }
}

} // namespace

void check_zero_groups(const Config& config) {
  check_shard_groups(config);
  check_hierarchical_gather(config);
  check_second_copy(config);
  check_packed(config);
}

} // namespace cairn::config
