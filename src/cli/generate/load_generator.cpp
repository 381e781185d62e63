#include "cli/generate/load_generator.h"

#include "cli/generate/generate_flags.h"
#include "cli/train/join_job.h"
#include "config/internal/describe_model.h"
#include "pretrain/internal/megatron_reading.h"
#include "pretrain/internal/pretraining_data.h"
#include "pretrain/internal/same_model.h"

#include <cairn/base/error.h>
#include <cairn/models/load_model.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using pretrain::Kind;

constexpr std::array tokenizer_flags{
    "--tokenizer-type",
    "--vocab-file",
    "--merge-file",
    "--tokenizer-model",
    "--vocab-size"};

constexpr std::array tokenizer_files{
    "tokenizer.json",
    "tokenizer.model",
    "spiece.model",
    "vocab.json",
    "vocab.txt"};

/// The tokenizer that the flags name; without any, the one beside the weights.
std::shared_ptr<const text::Tokenizer> tokenizer_for(
    const config::Config& config,
    Kind kind) {
  const auto names_one = [&](const char* flag) {
    return config.given.contains(flag);
  };
  if (std::ranges::any_of(tokenizer_flags, names_one)) {
    return pretrain::open_tokenizer(kind, config.flags);
  }
  const fs::path folder = *config.flags.checkpointing.load;
  const auto is_there = [&](const char* name) {
    std::error_code error;
    return fs::exists(folder / name, error);
  };
  if (std::ranges::none_of(tokenizer_files, is_there)) {
    throw ConfigError(
        {.what = "no tokenizer is named, and none lies beside the weights",
         .where = "--tokenizer-model",
         .values = folder.string() + " has no tokenizer.json, for one",
         .remedy = "name the one that the model was trained with, or give "
                   "--vocab-file and --merge-file"});
  }
  config::Flags flags = config.flags;
  flags.tokenizer.model = folder.string();
  return pretrain::open_tokenizer(kind, flags);
}

/// The model that the flags describe; values that they do not give are the
/// checkpoint's.
model::ModelDescription described(
    const config::Config& config,
    const model::ModelDescription& stored,
    std::optional<std::int64_t> vocabulary) {
  config::Flags flags = config.flags;
  const auto fill = [](std::optional<std::int64_t>& flag, std::int64_t value) {
    flag = flag.value_or(value);
  };
  fill(flags.model.num_layers, stored.layers);
  fill(flags.model.hidden_size, stored.hidden);
  fill(flags.model.num_attention_heads, stored.heads);
  if (stored.position == model::PositionKind::relative &&
      !config.given.contains("--position-embedding-type")) {
    flags.model.position_embedding = config::PositionEmbedding::relative;
  } else if (stored.position != model::PositionKind::relative) {
    fill(flags.model.max_position_embeddings, stored.positions);
  }
  if (stored.experts && !config.given.contains("--num-experts")) {
    flags.moe.num_experts = stored.experts->counts;
  }
  if (stored.experts && !config.given.contains("--expert-interval")) {
    flags.moe.expert_interval = stored.experts->interval;
  }
  if (stored.experts && !config.given.contains("--mlp-type")) {
    flags.moe.mlp_type = stored.experts->residual ? "residual" : "standard";
  }
  if (stored.decoder_layers > 0) {
    fill(flags.model.decoder_num_layers, stored.decoder_layers);
  }
  return config::describe_model(
      model::kind_of(stored.family),
      flags,
      vocabulary.value_or(stored.vocabulary));
}

models::StoredModel open_checkpoint(const config::Config& config) {
  const config::CheckpointFlags& from = config.flags.checkpointing;
  models::StoredModel stored = models::open_model(
      *from.load,
      from.ckpt_step,
      pretrain::megatron_reading(config.flags.model));
  generate::require_writes(stored.description);
  return stored;
}

/// `vocabulary`: the tokenizer's; unset if there is none.
void check_model(
    const config::Config& config,
    const models::StoredModel& stored,
    std::optional<std::int64_t> vocabulary) {
  auto differences = pretrain::model_differences(
      stored.description,
      described(config, stored.description, vocabulary));
  const auto not_said = [&](std::string_view flag) {
    return flag.starts_with("--") && !config.given.contains(std::string(flag));
  };
  std::erase_if(differences, [&](const pretrain::ModelDifference& difference) {
    return std::ranges::all_of(difference.flags, not_said);
  });
  pretrain::refuse_differences(*config.flags.checkpointing.load, differences);
}

at::ScalarType dtype_of(const config::DeepSpeedConfig& config) {
  return config.fp16.enabled ? at::kHalf
      : config.bf16.enabled  ? at::kBFloat16
                             : at::kFloat;
}

generate::SharedModel share(
    const config::Config& config,
    const distributed::World& world,
    const models::StoredModel& stored) {
  const config::DistributedFlags& flags = config.flags.distributed;
  return {
      world,
      stored,
      {.tensor = static_cast<int>(flags.tensor_parallel),
       .stages = static_cast<int>(flags.pipeline_parallel),
       .dtype = dtype_of(config.deepspeed),
       .weights = batch_options(config).weights}};
}

generate::TextModel load(
    const config::Config& config,
    const distributed::World& world,
    const models::StoredModel& stored) {
  if (world.size() > 1) {
    return share(config, world, stored);
  }
  models::ModelOptions model;
  const bool on_cpu = config.flags.generation.device == "cpu";
  if (model::kind_of(stored.description.family) == Kind::gpt && !on_cpu) {
    model.device = at::Device(world.device_name()); // T5 writes on the CPU
  }
  model.dtype = dtype_of(config.deepspeed);
  return models::load_model(stored, model);
}

} // namespace

StoredTextModel open_text_model(const config::Config& config) {
  models::StoredModel stored = open_checkpoint(config);
  auto tokenizer =
      tokenizer_for(config, model::kind_of(stored.description.family));
  check_model(
      config,
      stored,
      static_cast<std::int64_t>(tokenizer->vocab_size()));
  return {std::move(tokenizer), std::move(stored)};
}

distributed::World join_text_job(const config::Config& config) {
  config::DistributedFlags flags = config.flags.distributed;
  if (config.flags.generation.device == "cpu" && !flags.backend &&
      distributed::read_environment().world_size > 1) {
    flags.backend = config::Backend::gloo;
  }
  return join_job(flags);
}

LoadedTextModel load_text_model(
    const config::Config& config,
    const distributed::World& world) {
  StoredTextModel opened = open_text_model(config);
  return {std::move(opened.tokenizer), load(config, world, opened.stored)};
}

generate::SharedModel share_model(
    const config::Config& config,
    const distributed::World& world) {
  const models::StoredModel stored = open_checkpoint(config);
  check_model(config, stored, std::nullopt);
  return share(config, world, stored);
}

generate::TextModel load_language_model(
    const config::Config& config,
    const distributed::World& world) {
  const models::StoredModel stored = open_checkpoint(config);
  check_model(config, stored, std::nullopt);
  return load(config, world, stored);
}

generate::TextGenerator load_generator(
    const config::Config& config,
    const distributed::World& world) {
  const config::GenerationFlags& flags = config.flags.generation;
  LoadedTextModel loaded = load_text_model(config, world);
  return {
      std::move(loaded.tokenizer),
      std::move(loaded.model),
      generate_options(config),
      {.stops = flags.stop,
       .beam_width = flags.beam_width,
       .length_penalty = flags.length_penalty,
       .batch = batch_options(config)}};
}

} // namespace cairn::cli
