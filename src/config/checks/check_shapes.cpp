#include "config/checks/check.h"
#include "config/internal/batch_steps.h"
#include "config/internal/expert_layers.h"

#include <fmt/format.h>

namespace cairn::config {
namespace {

// Refuses a / b that leaves a rest, naming both.
void divides(
    const Config& config,
    const std::string& flag,
    std::int64_t whole,
    const std::string& parts_name,
    std::int64_t parts) {
  if (parts > 0 && whole % parts != 0) {
    refuse(
        config,
        flag,
        fmt::format("{} is not divisible by {} {}", whole, parts_name, parts),
        fmt::format(
            "make it a multiple of {}, or change {}",
            parts,
            parts_name.substr(parts_name.find("--"))));
  }
}

void check_model(const Config& config) {
  const ModelFlags& model = config.flags.model;
  const DistributedFlags& degrees = config.flags.distributed;
  const std::string tensor = "--tensor-model-parallel-size";
  if (model.hidden_size && model.num_attention_heads && !model.kv_channels) {
    divides(
        config,
        "--hidden-size",
        *model.hidden_size,
        "--num-attention-heads",
        *model.num_attention_heads);
  }
  if (model.num_attention_heads) {
    divides(
        config,
        "--num-attention-heads",
        *model.num_attention_heads,
        tensor,
        degrees.tensor_parallel);
  }
  if (model.num_attention_heads && model.num_key_value_heads) {
    divides(
        config,
        "--num-attention-heads",
        *model.num_attention_heads,
        "--num-key-value-heads",
        *model.num_key_value_heads);
  }
  if (model.num_key_value_heads &&
      degrees.tensor_parallel % *model.num_key_value_heads != 0) {
    // Fewer heads than ranks are shared by several ranks each.
    divides(
        config,
        "--num-key-value-heads",
        *model.num_key_value_heads,
        tensor,
        degrees.tensor_parallel);
  }
  if (model.ffn_hidden_size) {
    divides(
        config,
        "--ffn-hidden-size",
        *model.ffn_hidden_size,
        tensor,
        degrees.tensor_parallel);
  }
}

void check_sequence(const Config& config) {
  const DataFlags& data = config.flags.data;
  const ModelFlags& model = config.flags.model;
  const DistributedFlags& degrees = config.flags.distributed;
  const auto fits = [&](const char* flag,
                        const std::optional<std::int64_t>& length) {
    if (length && model.max_position_embeddings &&
        *length > *model.max_position_embeddings) {
      refuse(
          config,
          flag,
          fmt::format(
              "{} tokens, but --max-position-embeddings is {}",
              *length,
              *model.max_position_embeddings),
          "raise --max-position-embeddings");
    }
  };
  fits("--seq-length", data.seq_length);
  fits("--encoder-seq-length", data.encoder_seq_length);
  fits("--decoder-seq-length", data.decoder_seq_length);
  if (!data.seq_length) {
    return;
  }
  if (degrees.sequence_parallel) {
    divides(
        config,
        "--seq-length",
        *data.seq_length,
        degrees.context_parallel > 1
            ? "--tensor-model-parallel-size x --context-parallel-size"
            : "--tensor-model-parallel-size",
        degrees.tensor_parallel * degrees.context_parallel);
  }
  if (degrees.context_parallel > 1) {
    // The ring gives every rank one early and one late piece, for balance.
    const bool ring =
        degrees.context_parallel_kind == ContextParallelKind::ring;
    divides(
        config,
        "--seq-length",
        *data.seq_length,
        ring ? "2 x --context-parallel-size" : "--context-parallel-size",
        ring ? 2 * degrees.context_parallel : degrees.context_parallel);
  }
}

void check_pipeline(const Config& config) {
  const DistributedFlags& degrees = config.flags.distributed;
  for (const char* flag :
       {"--num-layers-in-first-pipeline-stage",
        "--num-layers-in-last-pipeline-stage",
        "--account-for-embedding-in-pipeline-split",
        "--account-for-loss-in-pipeline-split",
        "--pipeline-model-parallel-layout"}) {
    if (degrees.pipeline_parallel == 1 && config.given.contains(flag)) {
      refuse(
          config,
          flag,
          "there are no stages to cut the layers for",
          "set --pipeline-model-parallel-size");
    }
  }
  if (degrees.no_pipeline_parallel && degrees.pipeline_parallel > 1) {
    refuse(
        config,
        "--no-pipeline-parallel",
        fmt::format(
            "contradicts --pipeline-model-parallel-size {}",
            degrees.pipeline_parallel));
  }
  const bool interleaved =
      degrees.pipeline_schedule == PipelineSchedule::interleaved;
  if (interleaved && !degrees.has_virtual_stages() &&
      !degrees.pipeline_layout) {
    refuse(
        config,
        "--pipeline-schedule",
        "the interleaved schedule needs virtual stages",
        "set --num-layers-per-virtual-pipeline-stage or "
        "--num-virtual-stages-per-pipeline-rank");
  }
  if (degrees.has_virtual_stages()) {
    const std::string by_layers = "--num-layers-per-virtual-pipeline-stage";
    const std::string by_number = "--num-virtual-stages-per-pipeline-rank";
    const std::string flag = degrees.virtual_stages ? by_number : by_layers;
    if (degrees.virtual_stages && degrees.layers_per_virtual_stage) {
      refuse(
          config,
          by_number,
          "not with " + by_layers + ": both say how many virtual stages",
          "drop one of the two");
    }
    if (!interleaved) {
      refuse(
          config,
          flag,
          "contradicts --pipeline-schedule: only the interleaved schedule has "
          "virtual stages",
          "drop one of the two");
    }
    if (degrees.pipeline_parallel < 2) {
      refuse(
          config,
          flag,
          "virtual stages need --pipeline-model-parallel-size of 2 or more");
    }
  }
}

void check_experts(const Config& config) {
  const DistributedFlags& degrees = config.flags.distributed;
  if (degrees.expert_parallel == 1) {
    return;
  }
  if (!has_experts(config.flags.moe)) {
    refuse(
        config,
        "--expert-model-parallel-size",
        "there are no experts to share out",
        "set --num-experts");
  }
  const std::int64_t sharers =
      config.data_parallel_size * degrees.context_parallel;
  if (sharers % degrees.expert_parallel != 0) {
    refuse(
        config,
        "--expert-model-parallel-size",
        fmt::format(
            "{} does not divide the data-parallel size {}{}",
            degrees.expert_parallel,
            config.data_parallel_size,
            degrees.context_parallel > 1
                ? fmt::format(" x context {}", degrees.context_parallel)
                : ""));
  }
  const ZeroConfig& zero = config.deepspeed.zero;
  if (zero.mics_shard_size > 0 || zero.zero_hpz_partition_size > 1 ||
      zero.zero_quantized_weights || zero.zero_quantized_nontrainable_weights ||
      zero.zero_quantized_gradients) {
    refuse(
        config,
        "zero_optimization",
        "experts are shared out over ranks, which ZeRO++ and MiCS would share "
        "out in another way",
        "leave out mics_shard_size, zero_hpz_partition_size and "
        "zero_quantized_…");
  }
  for (const std::int64_t experts : config.flags.moe.num_experts) {
    if (experts > 1) {
      divides(
          config,
          "--num-experts",
          experts,
          "--expert-model-parallel-size",
          degrees.expert_parallel);
    }
  }
}

void check_rampup(const Config& config) {
  const auto& rampup = config.flags.training.rampup_batch_size;
  if (rampup.empty()) {
    return;
  }
  if (!config.given.contains("train_batch_size") &&
      !config.deepspeed.elasticity.enabled) {
    refuse(
        config,
        "--rampup-batch-size",
        "grows to the global batch, which is not given",
        "add --global-batch-size");
  }
  const BatchConfig& batch = *config.deepspeed.batch;
  const std::string flag = "--rampup-batch-size";
  const std::int64_t start = rampup[0];
  const std::int64_t increment = rampup[1];
  if (start < 1 || increment < 1 || start > batch.train) {
    refuse(
        config,
        flag,
        fmt::format(
            "start {} and increment {} must be at least 1, and start at most "
            "the global batch {}",
            start,
            increment,
            batch.train));
  }
  if ((batch.train - start) % increment != 0) {
    refuse(
        config,
        flag,
        fmt::format(
            "from {} in steps of {} never reaches the global batch {}",
            start,
            increment,
            batch.train));
  }
  const std::int64_t least = batch.micro * batch.data_parallel;
  for (const std::int64_t size : {start, increment}) {
    if (size % least != 0) {
      refuse(
          config,
          flag,
          fmt::format(
              "{} is not a multiple of micro batch {} x data-parallel size {}",
              size,
              batch.micro,
              batch.data_parallel));
    }
  }
}

void check_batch_steps(const Config& config) {
  const std::string flag = "--step-batch-size-schedule";
  const std::vector<BatchStep> steps = batch_steps(config.flags);
  if (steps.empty()) {
    return;
  }
  if (!config.flags.training.rampup_batch_size.empty()) {
    refuse(
        config,
        flag,
        flag + " and --rampup-batch-size exclude each other",
        "give one of them");
  }
  const BatchConfig& batch = *config.deepspeed.batch;
  const std::int64_t least = batch.micro * batch.data_parallel;
  for (const BatchStep& step : steps) {
    if (step.batch % least != 0) {
      refuse(
          config,
          flag,
          fmt::format(
              "{} is not a multiple of micro batch {} x data-parallel size {}",
              step.batch,
              batch.micro,
              batch.data_parallel));
    }
  }
}

} // namespace

void check_shapes(const Config& config) {
  check_model(config);
  check_sequence(config);
  check_pipeline(config);
  check_experts(config);
  check_rampup(config);
  check_batch_steps(config);
}

} // namespace cairn::config
