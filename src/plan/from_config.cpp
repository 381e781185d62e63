#include <cairn/plan/from_config.h>

#include "config/internal/describe_model.h"
#include "pipeline/internal/stage_cuts.h"
#include "zero/internal/bucket_limit.h"
#include "zero/internal/policy.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>

namespace cairn::plan {
namespace {

using config::Config;
using config::DataType;

double bytes_of(DataType type) {
  return type == DataType::fp32 ? 4 : 2;
}

Place place_of(zero::Tier tier) {
  switch (tier) {
    case zero::Tier::cpu:
      return Place::cpu;
    case zero::Tier::nvme:
      return Place::nvme;
    case zero::Tier::device:
      break;
  }
  return Place::device;
}

int bits_of(zero::Wire wire) {
  return wire == zero::Wire::exact ? 16 : wire == zero::Wire::int8 ? 8 : 4;
}

/// How the engine runs what the configuration says of its messages.
Program program_of(const Config& config) {
  const config::ZeroConfig& zero = config.deepspeed.zero;
  const bool said = config.given.contains("zero_optimization.overlap_comm");
  Program program{
      .is_cairn = true,
      .overlaps_gradients = !said || zero.overlap_comm.value_or(true),
      .overlaps_gathers = zero.prefetch_bucket_size > 0,
      .gathers_ahead = config.flags.distributed.overlap_param_gather,
      .overlaps_tensor = config.flags.distributed.tp_comm_overlap,
      .bucket_limit = zero::bucket_limit(zero, zero::policy_of(zero))};
  // Buckets stay until their next use if no more than the limit are used in
  // between: at the turn to backward these are the last ones. Others are
  // gathered ahead.
  program.live_elements = static_cast<double>(std::min(
      zero.max_live_parameters,
      zero.max_reuse_distance / 2 + zero.prefetch_bucket_size));
  if (config.flags.precision.fp8_recipe == config::Fp8Recipe::delayed) {
    program.eight_bit_copies = 2; // in both orders
  }
  return program;
}

/// Sets what the backward pass computes again, as flags and keys say.
void add_recomputation(const Config& config, RunLayout& run) {
  const config::TrainingFlags& flags = config.flags.training;
  if (flags.recomputes_layers()) {
    run.recompute = Recompute::blocks;
    const std::int64_t number = flags.recompute_num_layers.value_or(1);
    (flags.recompute_method == config::RecomputeMethod::block
         ? run.recomputed_blocks
         : run.recomputed_together) = number;
  }
  const config::ActivationCheckpointingConfig& how =
      config.deepspeed.activation_checkpointing;
  run.inputs_on_host = how.cpu_checkpointing;
  run.inputs_cut = how.partition_activations && run.tensor > 1;
  const auto has = [&](const char* part) {
    return flags.recomputes_parts() &&
        std::ranges::find(flags.recompute_modules, part) !=
        flags.recompute_modules.end();
  };
  run.recompute_norms = has("layernorm");
  run.recompute_mlps = has("mlp");
  run.recompute_mixtures = has("moe");
  run.recompute_expert_activations = has("moe_act");
}

} // namespace

StateBytes state_bytes_of(const Config& config) {
  const config::DeepSpeedConfig& settings = config.deepspeed;
  std::string type = settings.optimizer.type.value_or("adam");
  std::ranges::transform(type, type.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  const bool two = type == "adam" || type == "adamw" || type == "lamb";
  const bool one = type == "lion" || type == "adagrad";
  if (!two && !one) {
    throw ConfigError(
        {.what = "the states of this optimizer are not counted",
         .where = "optimizer.type",
         .values = type,
         .remedy = "plan with Adam, LAMB, Lion or Adagrad"});
  }
  const config::DataTypesConfig& types = settings.data_types;
  StateBytes bytes{
      .parameter = 4,
      .gradient = 4,
      .master = 0,
      .moments = bytes_of(types.exp_avg_dtype) +
          (two ? bytes_of(types.exp_avg_sq_dtype) : 0)};
  if (settings.fp16.enabled || settings.bf16.enabled) {
    bytes.parameter = 2;
    bytes.gradient = settings.bf16.enabled ? 4 : 2; // bf16 adds up in fp32
    // fp32 weights, or what bf16 drops of them.
    bytes.master = types.precision_aware_optimizer ? 2 : 4;
  }
  if (types.grad_accum_dtype) {
    bytes.gradient = bytes_of(*types.grad_accum_dtype);
  }
  return bytes;
}

Training training_of(model::ModelKind kind, const Config& config) {
  return training_of(
      config::describe_model(
          kind,
          config.flags,
          config::expected_vocabulary(kind, config.flags.tokenizer)),
      config);
}

Training training_of(
    const model::ModelDescription& model,
    const Config& config) {
  const config::DeepSpeedConfig& settings = config.deepspeed;
  const std::int64_t sequence = config::sequence_length(config.flags.data);
  const model::ModelKind kind = model::kind_of(model.family);
  Training training{
      .model = model::with_padding(model),
      .sequence = sequence,
      .decoder_sequence = kind == model::ModelKind::t5
          ? config.flags.data.decoder_seq_length.value_or(sequence)
          : 0,
      .value_bytes = settings.fp16.enabled || settings.bf16.enabled ? 2.0 : 4.0,
      .states = state_bytes_of(config),
      .eight_bit = config.flags.precision.fp8_format.has_value(),
      .program = program_of(config)};
  if (kind == model::ModelKind::bert) {
    training.program.scored_share = config.flags.data.mask_prob;
  }
  return training;
}

Training on_machine(Training training, const Cluster& cluster) {
  if (cluster.gpu.is_cpu) {
    training.program.elementwise = Program::Elementwise::eager;
    training.program.loss = Program::Loss::chunks_of_cpu;
  } else if (!cluster.gpu.cudnn_attention || training.value_bytes > 2) {
    training.program.attention = Program::Attention::flash;
  }
  return training;
}

std::string schedule_of(config::PipelineSchedule schedule) {
  switch (schedule) {
    case config::PipelineSchedule::gpipe:
      return "gpipe";
    case config::PipelineSchedule::one_f_one_b:
      return "1f1b";
    case config::PipelineSchedule::interleaved:
      return "interleaved";
    case config::PipelineSchedule::zero_bubble:
      return "zb-h1";
  }
  return "";
}

RunLayout layout_of(const Config& config) {
  if (!config.deepspeed.batch) {
    throw ConfigError(
        {.what = "the batch size is missing",
         .where = "--micro-batch-size",
         .remedy = "give --micro-batch-size and --global-batch-size"});
  }
  const config::DistributedFlags& flags = config.flags.distributed;
  const zero::Policy policy = zero::policy_of(config.deepspeed.zero);
  RunLayout run{
      .gpus = config.world_size,
      .tensor = flags.tensor_parallel,
      .pipeline = flags.pipeline_parallel,
      .context = flags.context_parallel,
      .expert = flags.expert_parallel,
      .zero_stage = static_cast<int>(config.deepspeed.zero.stage),
      .micro_batch = config.deepspeed.batch->micro,
      .global_batch = config.deepspeed.batch->train,
      .sequence_parallel = flags.sequence_parallel && flags.tensor_parallel > 1,
      .recompute = Recompute::scores,
      .optimizer = place_of(policy.optimizer_tier),
      .parameters = place_of(policy.parameter_tier),
      .offloaded = policy.offloaded,
      .offloaded_to_host = policy.offloaded_to_cpu,
      .update_on_gpu = policy.states_visit_device,
      .shard_ranks = policy.shard_ranks,
      .weight_bits = bits_of(policy.weight_wire),
      .gradient_bits = bits_of(policy.gradient_wire),
      .second_copy_ranks = policy.second_copy_ranks};
  if (config.deepspeed.zero.offload_optimizer) {
    run.visit_buffers = std::max<std::int64_t>(
        2,
        config.deepspeed.zero.offload_optimizer->buffer_count);
  }
  add_recomputation(config, run);
  const std::int64_t layers = config.flags.model.num_layers.value_or(
      config.flags.model.encoder_num_layers.value_or(0));
  if (run.pipeline > 1) {
    if (flags.virtual_stages) {
      run.chunks = *flags.virtual_stages;
    } else if (flags.layers_per_virtual_stage) {
      run.chunks = std::max<std::int64_t>(
          1,
          layers / run.pipeline / *flags.layers_per_virtual_stage);
    }
    run.schedule = schedule_of(flags.pipeline_schedule);
    if (run.schedule == "interleaved" && run.chunks == 1) {
      run.schedule = "1f1b";
    }
  }
  return run;
}

RunLayout layout_of(
    const model::ModelDescription& model,
    const Config& config) {
  RunLayout run = layout_of(config);
  if (run.pipeline > 1) {
    run.cuts = pipeline::stage_cuts(model, config);
  }
  return run;
}

} // namespace cairn::plan
