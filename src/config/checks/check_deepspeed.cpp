#include "config/checks/check.h"
#include "config/internal/curriculum_length.h"
#include "config/internal/expert_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <set>
#include <utility>

namespace cairn::config {
namespace {

void check_optimizer(const Config& config) {
  const OptimizerConfig& optimizer = config.deepspeed.optimizer;
  if (optimizer.params && !optimizer.type) {
    refuse(
        config,
        "optimizer.params",
        "settings of an optimizer that is not named",
        "set optimizer.type (or --lr, for Megatron's Adam)");
  }
  const SchedulerConfig& scheduler = config.deepspeed.scheduler;
  if (scheduler.params && !scheduler.type) {
    refuse(
        config,
        "scheduler.params",
        "settings of a schedule that is not named",
        "set scheduler.type");
  }
  if (!scheduler.type) {
    return;
  }
  const SchedulerParams params = scheduler.params.value_or(SchedulerParams{});
  const auto need = [&](const char* name, bool there) {
    if (!there) {
      refuse(
          config,
          "scheduler.type",
          fmt::format("{} needs {}", *scheduler.type, name),
          fmt::format("set scheduler.params.{}", name));
    }
  };
  if (*scheduler.type == "WarmupDecayLR" ||
      *scheduler.type == "WarmupCosineLR") {
    need("total_num_steps", params.total_num_steps.has_value());
  }
  if (*scheduler.type == "OneCycle") {
    need("cycle_min_lr", params.cycle_min_lr.has_value());
    need("cycle_max_lr", params.cycle_max_lr.has_value());
  }
}

void check_precision(const Config& config) {
  const DeepSpeedConfig& deepspeed = config.deepspeed;
  if (deepspeed.fp16.enabled && deepspeed.fp16.loss_scale != 0 &&
      deepspeed.fp16.at_minimum_scale != AtMinimumScale::stop) {
    refuse(
        config,
        "fp16.at_minimum_scale",
        "a fixed loss scale never comes to a minimum",
        "drop this, or loss_scale");
  }
  if (!deepspeed.amp.enabled) {
    return;
  }
  const auto exclude = [&](bool on, const char* other) {
    if (on) {
      refuse(
          config,
          "amp.enabled",
          fmt::format("amp and {} exclude each other", other),
          fmt::format("drop amp or {}", other));
    }
  };
  exclude(deepspeed.fp16.enabled, "fp16");
  exclude(deepspeed.bf16.enabled, "bf16");
  exclude(deepspeed.zero.stage != ZeroStage::disabled, "zero_optimization");
  if (deepspeed.amp.min_loss_scale > deepspeed.amp.max_loss_scale) {
    refuse(
        config,
        "amp.min_loss_scale",
        fmt::format(
            "the smallest loss scale {} is above the largest {}",
            deepspeed.amp.min_loss_scale,
            deepspeed.amp.max_loss_scale),
        "lower it, or raise max_loss_scale");
  }
}

void check_offloaded_update(const Config& config) {
  const std::string section = "zero_optimization.offload_optimizer.";
  const auto& offload = config.deepspeed.zero.offload_optimizer;
  if (!offload || offload->device == OffloadDevice::none) {
    return;
  }
  if (offload->ratio < 1 && offload->update_on &&
      offload->update_on != OffloadUpdate::gpu) {
    refuse(
        config,
        section + "update_on",
        "states that stay on the GPU are updated there",
        "leave update_on out, or set ratio to 1");
  }
  if (offload->update_on == OffloadUpdate::measured &&
      offload->device == OffloadDevice::nvme) {
    refuse(
        config,
        section + "update_on",
        "the disk decides how fast states on NVMe are updated, not the place",
        "set it to cpu, or to gpu where gradients fit there");
  }
}

/// Checks the part of the states that rests in host memory beside a disk.
void check_part_in_host_memory(const Config& config) {
  const std::string key = "zero_optimization.offload_optimizer.cpu_ratio";
  const auto& offload = config.deepspeed.zero.offload_optimizer;
  if (!offload || offload->cpu_ratio == 0) {
    return;
  }
  if (offload->device != OffloadDevice::nvme) {
    refuse(
        config,
        key,
        "it is the part in host memory of states that else go to a disk",
        "set device to nvme, or use ratio alone");
  }
  if (offload->ratio == 1 && offload->update_on != OffloadUpdate::gpu) {
    refuse(
        config,
        key,
        "states in several places are updated on the GPU",
        "add \"update_on\": \"gpu\", or set ratio below 1");
  }
  if (offload->cpu_ratio > offload->ratio) {
    refuse(
        config,
        key,
        fmt::format(
            "{:g} in host memory is more than the {:g} that leave the GPU",
            offload->cpu_ratio,
            offload->ratio),
        "lower it to ratio at most");
  }
}

void check_state_types(const Config& config) {
  const DeepSpeedConfig& deepspeed = config.deepspeed;
  const DataTypesConfig& types = deepspeed.data_types;
  const auto check = [&](const char* key, DataType type) {
    const std::string path = std::string("data_types.") + key;
    if (type == DataType::fp16) {
      refuse(
          config,
          path,
          "states of an optimizer are fp32 or bf16: the squares of small "
          "gradients are below fp16's range",
          "use bf16");
    }
    if (type == DataType::bf16 && !types.precision_aware_optimizer) {
      refuse(
          config,
          path,
          "states in bf16 belong to the precision-aware optimizer",
          "add --use-precision-aware-optimizer, or "
          "data_types.precision_aware_optimizer");
    }
  };
  check("exp_avg_dtype", types.exp_avg_dtype);
  check("exp_avg_sq_dtype", types.exp_avg_sq_dtype);
  if (types.precision_aware_optimizer && !deepspeed.bf16.enabled) {
    refuse(
        config,
        "data_types.precision_aware_optimizer",
        "weights are split into bf16 and the rest, which needs training in "
        "bf16",
        "add --bf16, or bf16.enabled");
  }
}

void check_zero(const Config& config) {
  const ZeroConfig& zero = config.deepspeed.zero;
  const std::string section = "zero_optimization.";
  if (zero.offload_param && zero.offload_param->device != OffloadDevice::none &&
      zero.stage != ZeroStage::weights) {
    refuse(
        config,
        section + "offload_param",
        fmt::format(
            "offloading parameters needs stage 3, not stage {}",
            static_cast<int>(zero.stage)),
        "set stage to 3, or offload the optimizer only");
  }
  if (zero.offload_optimizer &&
      zero.offload_optimizer->device != OffloadDevice::none &&
      zero.stage == ZeroStage::disabled) {
    refuse(
        config,
        section + "offload_optimizer",
        "offloading the optimizer needs stage 1, 2 or 3",
        "set zero_optimization.stage");
  }
  const auto need_path = [&](const auto& offload, const char* name) {
    if (offload && offload->device == OffloadDevice::nvme &&
        !offload->nvme_path) {
      refuse(
          config,
          section + name + ".device",
          "nvme needs a folder to write to",
          fmt::format("set {}{}.nvme_path", section, name));
    }
  };
  need_path(zero.offload_param, "offload_param");
  need_path(zero.offload_optimizer, "offload_optimizer");
  check_zero_groups(config);
  check_offloaded_update(config);
  check_part_in_host_memory(config);
}

void check_curriculum(const Config& config) {
  const CurriculumConfig& plan = config.deepspeed.curriculum;
  if (!plan.enabled) {
    return;
  }
  const std::string section = "curriculum_learning.";
  const auto need = [&](const char* name, bool there) {
    if (!there) {
      refuse(
          config,
          section + "enabled",
          fmt::format("a curriculum needs {}", name),
          fmt::format("set {}{}", section, name));
    }
  };
  need("min_difficulty", plan.min_difficulty.has_value());
  need("max_difficulty", plan.max_difficulty.has_value());
  need("schedule_type", plan.schedule_type.has_value());
  if (*plan.min_difficulty > *plan.max_difficulty) {
    refuse(
        config,
        section + "min_difficulty",
        fmt::format(
            "{} is above max_difficulty {}",
            *plan.min_difficulty,
            *plan.max_difficulty));
  }
  constexpr std::int64_t longest = std::int64_t{1} << 40;
  if (*plan.max_difficulty > longest) {
    refuse(
        config,
        section + "max_difficulty",
        fmt::format("{} is no length of a sequence", *plan.max_difficulty));
  }
  if (*plan.schedule_type == CurriculumSchedule::fixed_discrete) {
    need("schedule_config.difficulty", !plan.difficulty.empty());
    need("schedule_config.max_step", !plan.max_step.empty());
    if (plan.max_step.size() + 1 != plan.difficulty.size()) {
      refuse(
          config,
          section + "schedule_config.max_step",
          fmt::format(
              "{} lengths need {} steps between them, not {}",
              plan.difficulty.size(),
              plan.difficulty.size() - 1,
              plan.max_step.size()));
    }
    if (std::ranges::adjacent_find(
            plan.max_step,
            std::ranges::greater_equal()) != plan.max_step.end()) {
      refuse(
          config,
          section + "schedule_config.max_step",
          "each step must be behind the one before");
    }
    return;
  }
  need(
      "schedule_config.total_curriculum_step",
      plan.total_curriculum_step.has_value());
  need("schedule_config.difficulty_step", plan.difficulty_step.has_value());
  need(
      "schedule_config.root_degree",
      plan.root_degree.has_value() ||
          *plan.schedule_type != CurriculumSchedule::fixed_root);
  if (curriculum_length(plan, 1) < 1) {
    refuse(
        config,
        section + "schedule_config.difficulty_step",
        fmt::format(
            "{} tokens, rounded down to a multiple of {}, are none",
            *plan.min_difficulty,
            *plan.difficulty_step),
        "raise min_difficulty, or lower difficulty_step");
  }
}

/// The message of the first rule that is broken.
void check_random_ltd(const Config& config) {
  const RandomLtdConfig& ltd = config.deepspeed.random_ltd;
  if (!ltd.is_on() && !config.flags.data.random_ltd) {
    return;
  }
  const CurriculumConfig& plan = ltd.schedule;
  const DistributedFlags& ranks = config.flags.distributed;
  const ModelFlags& model = config.flags.model;
  const std::int64_t total = ltd.total_layers.value_or(0);
  const auto layers_said =
      model.num_layers ? model.num_layers : model.encoder_num_layers;
  const auto listed = static_cast<std::int64_t>(ltd.layers.size());
  const std::set<std::int64_t> layers(ltd.layers.begin(), ltd.layers.end());
  const std::int64_t least = plan.min_difficulty.value_or(0);
  for (const auto& [broken, what] :
       std::initializer_list<std::pair<bool, const char*>>{
           {!config.flags.data.random_ltd,
            "`cairn pretrain gpt` drops tokens, and asks for --random-ltd"},
           {!ltd.is_on(),
            "not enabled in data_efficiency, data_routing and random_ltd"},
           {!ltd.total_layers || !plan.min_difficulty || !plan.max_difficulty ||
                !plan.total_curriculum_step || !plan.difficulty_step,
            "needs total_layer_num, min_value, max_value, require_steps and "
            "seq_per_step"},
           {layers_said.value_or(total) != total,
            "total_layer_num is not --num-layers"},
           {layers.empty() || std::ssize(layers) != listed ||
                *layers.rbegin() >= total,
            "random_ltd_layer_id has no layer, one that is not there, or one "
            "twice"},
           {ltd.layer_count.value_or(listed) != listed,
            "random_ltd_layer_num is not the number of random_ltd_layer_id"},
           {least > plan.max_difficulty, "min_value is above max_value"},
           {least < plan.difficulty_step && least != plan.max_difficulty,
            "min_value is below seq_per_step, so that no token would be left"},
           {config.deepspeed.curriculum.enabled,
            "not with curriculum_learning: both say what a step's tokens are"},
           {config.flags.data.reset_attention_mask ||
                model.position_embedding == PositionEmbedding::relative,
            "not with --reset-attention-mask or --position-embedding-type "
            "relative: masks are of whole sequences"},
           {ranks.sequence_parallel || ranks.context_parallel > 1,
            "not with --sequence-parallel or --context-parallel-size: ranks "
            "share whole sequences evenly"},
           {ranks.pipeline_parallel > 1,
            "not with --pipeline-model-parallel-size: stages do not tell each "
            "other which tokens are left"},
           {has_experts(config.flags.moe),
            "not with --num-experts: experts have room for whole sequences"}}) {
    if (broken) {
      refuse(config, "data_efficiency.data_routing.random_ltd", what);
    }
  }
}

void check_rest(const Config& config) {
  const AutotuningConfig& tuning = config.deepspeed.autotuning;
  if (tuning.end_profile_step < tuning.start_profile_step) {
    refuse(
        config,
        "autotuning.end_profile_step",
        fmt::format(
            "{} comes before start_profile_step {}",
            tuning.end_profile_step,
            tuning.start_profile_step));
  }
  for (const auto& [name, folder] :
       {std::pair{"autotuning.results_dir", &tuning.results_dir},
        std::pair{"autotuning.exps_dir", &tuning.exps_dir}}) {
    if (folder->empty()) {
      refuse(config, name, "an empty folder name");
    }
  }
  const std::string& partition = config.deepspeed.pipeline.partition;
  if (partition != "best" && partition != "balanced" &&
      partition != "uniform" && partition != "parameters" &&
      !partition.starts_with("type:")) {
    refuse(
        config,
        "pipeline.partition",
        fmt::format("no way to share out layers: \"{}\"", partition),
        "use \"best\", \"balanced\", \"uniform\", \"parameters\" or "
        "\"type:regex\"");
  }
}

} // namespace

void check_deepspeed(const Config& config) {
  check_optimizer(config);
  check_precision(config);
  check_zero(config);
  check_state_types(config);
  check_curriculum(config);
  check_random_ltd(config);
  check_rest(config);
}

} // namespace cairn::config
