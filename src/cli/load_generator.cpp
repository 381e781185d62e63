#include "cli/load_generator.h"

#include "cli/generate_flags.h"
#include "pretrain/describe_model.h"
#include "pretrain/megatron_reading.h"
#include "pretrain/pretraining_data.h"
#include "pretrain/same_model.h"

#include <cairn/base/error.h>
#include <cairn/models/load_model.h>

#include <filesystem>
#include <memory>
#include <system_error>

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using pretrain::Kind;

/// As the flags say; without any, the one that lies beside the weights.
std::shared_ptr<const text::Tokenizer> tokenizer_for(
    const config::Config& config) {
  config::Flags flags = config.flags;
  const config::TokenizerFlags& given = flags.tokenizer;
  const fs::path beside =
      fs::path(*flags.checkpointing.load) / "tokenizer.json";
  if (!given.type && !given.vocab_file && !given.model) {
    std::error_code error;
    if (!fs::exists(beside, error)) {
      throw ConfigError(
          {.what = "no tokenizer is named, and none lies beside the weights",
           .where = "--tokenizer-model",
           .values = beside.string() + " is not there",
           .remedy = "name the one that the model was trained with, or give "
                     "--vocab-file and --merge-file"});
    }
    flags.tokenizer.model = beside.string();
  }
  return pretrain::open_tokenizer(Kind::gpt, flags);
}

models::StoredModel open_checkpoint(
    const config::Config& config,
    const text::Tokenizer& tokenizer) {
  const config::CheckpointFlags& from = config.flags.checkpointing;
  models::StoredModel stored = models::open_model(
      *from.load,
      from.ckpt_step,
      pretrain::megatron_reading(config.flags.model));
  if (flags_describe_model(config)) {
    pretrain::require_same_model(
        *from.load,
        stored.description,
        pretrain::describe_model(
            Kind::gpt,
            config.flags,
            static_cast<std::int64_t>(tokenizer.vocab_size())));
  }
  return stored;
}

} // namespace

generate::TextGenerator load_generator(
    const config::Config& config,
    const distributed::World& world) {
  const auto tokenizer = tokenizer_for(config);
  const models::StoredModel stored = open_checkpoint(config, *tokenizer);
  models::ModelOptions model;
  model.device = at::Device(world.device_name());
  if (config.deepspeed.fp16.enabled || config.deepspeed.bf16.enabled) {
    model.dtype = config.deepspeed.fp16.enabled ? at::kHalf : at::kBFloat16;
  }
  const config::GenerationFlags& flags = config.flags.generation;
  return {
      tokenizer,
      models::load_model(stored, model),
      {.sampling =
           {.greedy = flags.greedy,
            .temperature = flags.temperature,
            .top_k = flags.top_k,
            .top_p = flags.top_p},
       .most_tokens = flags.out_seq_length,
       .longest = config.flags.data.seq_length,
       .seed = static_cast<std::uint64_t>(config.flags.training.seed)}};
}

} // namespace cairn::cli
