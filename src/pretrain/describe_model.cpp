#include "pretrain/describe_model.h"

#include <cairn/base/error.h>
#include <cairn/config/expert_layers.h>
#include <cairn/models/presets.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

namespace cairn::pretrain {

namespace {

using checkpoints::ModelDescription;
using config::Flags;

std::int64_t required(
    const std::optional<std::int64_t>& value,
    const std::string& flag) {
  if (!value) {
    throw ConfigError(
        {.what = "the size of the model is not said",
         .where = flag,
         .remedy = "give it, such as --num-layers 12 --hidden-size 768 "
                   "--num-attention-heads 12 --seq-length 1024"});
  }
  return *value;
}

std::int64_t padded(std::int64_t vocabulary, const Flags& flags) {
  const std::int64_t step = flags.model.make_vocab_size_divisible_by *
      flags.distributed.tensor_parallel;
  return (vocabulary + step - 1) / step * step;
}

models::ModelSizes sizes_of(
    Kind kind,
    const Flags& flags,
    std::int64_t vocabulary) {
  const config::ModelFlags& model = flags.model;
  const std::int64_t sequence = std::max(
      flags.data.seq_length.value_or(flags.data.encoder_seq_length.value_or(0)),
      kind == Kind::t5 ? flags.data.decoder_seq_length.value_or(0) : 0);
  return {
      .layers = required(
          model.num_layers ? model.num_layers : model.encoder_num_layers,
          "--num-layers"),
      .hidden = required(model.hidden_size, "--hidden-size"),
      .heads = required(model.num_attention_heads, "--num-attention-heads"),
      .sequence = model.max_position_embeddings.value_or(sequence),
      .vocabulary = vocabulary,
      .padded_vocabulary = padded(vocabulary, flags),
      .dropout = flags.regularization.hidden_dropout};
}

ModelDescription base_of(
    Kind kind,
    const Flags& flags,
    const models::ModelSizes& sizes) {
  switch (kind) {
    case Kind::bert:
      return models::bert_description(
          sizes,
          flags.model.bert_binary_head ? models::BinaryHead::with
                                       : models::BinaryHead::without);
    case Kind::t5:
      return models::t5_description(sizes);
    case Kind::gpt:
      break;
  }
  return models::gpt_description(sizes);
}

void apply_positions(const config::ModelFlags& flags, ModelDescription& model) {
  using config::PositionEmbedding;
  const bool rotary = flags.use_rotary_position_embeddings ||
      flags.position_embedding == PositionEmbedding::rope;
  if (rotary) {
    if (flags.rotary_percent != 1) {
      throw ConfigError(
          {.what = "rotary positions for a part of each head",
           .where = "--rotary-percent",
           .remedy = "leave it at 1"});
    }
    model.position = checkpoints::PositionKind::rotary;
    model.rope_theta = flags.rotary_base;
  } else if (flags.position_embedding == PositionEmbedding::relative) {
    model.position = checkpoints::PositionKind::relative;
    model.relative_buckets = flags.relative_attention_num_buckets;
    model.relative_distance = flags.relative_attention_max_distance;
  } else if (flags.position_embedding == PositionEmbedding::none) {
    throw ConfigError(
        {.what = "a model without positions",
         .where = "--position-embedding-type none",
         .remedy = "choose learned_absolute or rope"});
  }
}

void apply_mlp(const config::ModelFlags& flags, ModelDescription& model) {
  using checkpoints::ActivationKind;
  if (flags.openai_gelu) {
    model.activation = ActivationKind::gelu_tanh;
  }
  if (flags.swiglu) {
    model.activation = ActivationKind::silu;
    model.gated = true;
  }
  model.ffn = flags.ffn_hidden_size.value_or(
      // Megatron's: as many parameters as without the gate, by multiples of 64
      flags.swiglu ? model.hidden * 4 * 2 / 3 / 64 * 64 : 4 * model.hidden);
}

checkpoints::RouterNoise noise_of(config::RouterNoise noise) {
  switch (noise) {
    case config::RouterNoise::none:
      return checkpoints::RouterNoise::none;
    case config::RouterNoise::jitter:
      return checkpoints::RouterNoise::jitter;
    case config::RouterNoise::sample:
      return checkpoints::RouterNoise::sample;
  }
  throw InternalError({.what = "no such noise"});
}

void apply_experts(const config::MoeFlags& flags, ModelDescription& model) {
  if (!config::has_experts(flags)) {
    return;
  }
  config::experts_of_layers(flags, model.layers); // checks them
  model.experts = checkpoints::ExpertsDescription{
      .counts = flags.num_experts,
      .interval = flags.expert_interval,
      .top_k = flags.topk,
      .residual = flags.mlp_type == "residual",
      .train_capacity_factor = flags.train_capacity_factor,
      .eval_capacity_factor = flags.eval_capacity_factor,
      .min_capacity = flags.min_capacity,
      .drop_tokens = flags.token_dropping,
      .random_selection = flags.random_token_selection,
      .sample_second = flags.second_expert_sampling,
      .noise = noise_of(flags.noise),
      .loss_coefficient = flags.loss_coeff};
}

} // namespace

ModelDescription describe_model(
    Kind kind,
    const Flags& flags,
    std::int64_t vocabulary) {
  const config::ModelFlags& given = flags.model;
  ModelDescription model =
      base_of(kind, flags, sizes_of(kind, flags, vocabulary));
  if (kind == Kind::t5 && given.decoder_num_layers) {
    model.decoder_layers = *given.decoder_num_layers;
  }
  model.key_value_heads = given.num_key_value_heads.value_or(model.heads);
  model.head_size = given.kv_channels.value_or(model.hidden / model.heads);
  apply_positions(given, model);
  apply_mlp(given, model);
  if (given.normalization == config::Normalization::rms_norm) {
    model.norm = checkpoints::NormKind::rms_norm;
  }
  model.norm_epsilon = given.norm_epsilon;
  if (given.disable_bias_linear) {
    model.attention_bias = given.add_qkv_bias;
    model.mlp_bias = false;
  }
  if (given.untie_embeddings) {
    model.tied_head = false;
  }
  model.attention_dropout = flags.regularization.attention_dropout;
  if (kind == Kind::gpt && model.norm == checkpoints::NormKind::rms_norm &&
      model.position == checkpoints::PositionKind::rotary) {
    model.family = checkpoints::ModelFamily::llama;
  }
  apply_experts(flags.moe, model);
  checkpoints::check(model, "the model that the flags describe");
  return model;
}

} // namespace cairn::pretrain
