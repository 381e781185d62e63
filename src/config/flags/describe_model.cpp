#include "config/internal/describe_model.h"

#include "config/internal/expert_layers.h"

#include <cairn/base/error.h>
#include <cairn/model/presets.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::config {

namespace {

using model::ModelDescription;
using model::ModelKind;

// Limits so that no count overflows: a layer has at most 2^52 parameters.
constexpr std::int64_t largest_width = std::int64_t{1} << 22;
constexpr std::int64_t largest_table = std::int64_t{1} << 30;
constexpr std::int64_t most_layers = 3'000;
constexpr std::int64_t most_in_experts = std::int64_t{1} << 52;

std::int64_t said(
    const std::optional<std::int64_t>& value,
    const char* flag,
    std::int64_t most = largest_width) {
  if (!value) {
    throw ConfigError(
        {.what = "the size of the model is not said",
         .where = flag,
         .remedy = "give it, such as --num-layers 12 --hidden-size 768 "
                   "--num-attention-heads 12 --seq-length 1024; `cairn "
                   "pretrain --use-checkpoint-args` takes it from the "
                   "checkpoint that --load names"});
  }
  if (*value < 1 || *value > most) {
    throw ConfigError(
        {.what = fmt::format("{} is no size of a model", *value),
         .where = flag,
         .remedy = fmt::format("use 1 to {}", most)});
  }
  return *value;
}

std::int64_t padded(std::int64_t vocabulary, const Flags& flags) {
  const char* flag = "--make-vocab-size-divisible-by";
  const std::int64_t multiple =
      said(flags.model.make_vocab_size_divisible_by, flag) *
      flags.distributed.tensor_parallel;
  return said(
      model::padded_vocabulary(vocabulary, multiple),
      flag,
      2 * largest_table);
}

model::ModelSizes sizes_of(const Flags& flags, std::int64_t vocabulary) {
  const ModelFlags& given = flags.model;
  return {
      .layers = said(
          given.num_layers ? given.num_layers : given.encoder_num_layers,
          "--num-layers",
          most_layers),
      .hidden = said(given.hidden_size, "--hidden-size"),
      .heads = said(given.num_attention_heads, "--num-attention-heads"),
      .vocabulary = said(vocabulary, "--vocab-size", largest_table),
      .padded_vocabulary = padded(vocabulary, flags),
      .dropout = flags.regularization.hidden_dropout};
}

ModelDescription preset_of(
    ModelKind kind,
    const Flags& flags,
    const model::ModelSizes& sizes) {
  switch (kind) {
    case ModelKind::bert:
      return model::bert_description(
          sizes,
          flags.model.bert_binary_head ? model::BinaryHead::with
                                       : model::BinaryHead::without);
    case ModelKind::t5:
      return model::t5_description(sizes);
    case ModelKind::gpt:
      break;
  }
  return model::gpt_description(sizes);
}

void apply_heads(const ModelFlags& flags, ModelDescription& model) {
  model.key_value_heads = said(
      flags.num_key_value_heads.value_or(model.heads),
      "--num-key-value-heads");
  model.head_size = said(
      flags.kv_channels.value_or(model.hidden / model.heads),
      flags.kv_channels ? "--kv-channels" : "--num-attention-heads");
  said(model.heads * model.head_size, "--kv-channels");
  said(model.key_value_heads * model.head_size, "--kv-channels");
}

std::optional<std::int64_t> text_length(const DataFlags& flags) {
  return flags.seq_length ? flags.seq_length : flags.encoder_seq_length;
}

/// Tokens of the longest text, unless --max-position-embeddings says more.
std::optional<std::int64_t> longest_text(ModelKind kind, const Flags& flags) {
  if (flags.model.max_position_embeddings) {
    return flags.model.max_position_embeddings;
  }
  const auto text = text_length(flags.data);
  const auto other = flags.data.decoder_seq_length;
  return kind == ModelKind::t5 && text && other ? std::max(*text, *other)
                                                : text;
}

/// Applies which elements of a head turn, and how slowly.
void apply_rotary(const ModelFlags& given, ModelDescription& model) {
  if (given.rotary_percent < 1) {
    model.rotary_size = static_cast<std::int64_t>(
        static_cast<double>(model.head_size) * given.rotary_percent);
    if (model.rotary_size < 2 || model.rotary_size % 2 != 0) {
      throw ConfigError(
          {.what = "rotary positions turn an even number of elements of a head",
           .where = "--rotary-percent",
           .values = fmt::format(
               "{} of {} elements: {}",
               given.rotary_percent,
               model.head_size,
               model.rotary_size),
           .remedy = "choose another part of each head, such as 0.5"});
    }
  }
  if (given.use_rope_scaling) { // the rest is fixed, in Megatron as well
    model.rope_scaling = model::RopeScaling{
        .kind = "llama3",
        .factor = given.rope_scaling_factor,
        .low_frequency_factor = 1,
        .high_frequency_factor = 4,
        .original_positions = 8192};
  }
}

/// Refuses flags of rotary positions in a model without them.
void require_rotary(const ModelFlags& given) {
  for (const auto& [is_given, flag] :
       {std::pair{given.rotary_percent != 1, "--rotary-percent"},
        std::pair{given.use_rope_scaling, "--use-rope-scaling"}}) {
    if (is_given) {
      throw ConfigError(
          {.what = "the model has no rotary positions",
           .where = flag,
           .remedy = "add --position-embedding-type rope, or leave it out"});
    }
  }
}

void apply_positions(
    ModelKind kind,
    const Flags& flags,
    ModelDescription& model) {
  const ModelFlags& given = flags.model;
  const bool rotary = given.use_rotary_position_embeddings ||
      given.position_embedding == PositionEmbedding::rope;
  if (rotary) {
    model.position = model::PositionKind::rotary;
    model.rope_theta = given.rotary_base;
    apply_rotary(given, model);
  } else if (given.position_embedding == PositionEmbedding::relative) {
    model.position = model::PositionKind::relative;
    model.relative_buckets = said(
        given.relative_attention_num_buckets,
        "--relative-attention-num-buckets");
    model.relative_distance = given.relative_attention_max_distance;
  } else if (given.position_embedding == PositionEmbedding::none) {
    throw ConfigError(
        {.what = "a model without positions",
         .where = "--position-embedding-type none",
         .remedy = "choose learned_absolute or rope"});
  }
  if (!rotary) {
    require_rotary(given);
  }
  const auto longest = longest_text(kind, flags);
  model.positions = model.position == model::PositionKind::learned
      ? said(
            longest,
            given.max_position_embeddings ? "--max-position-embeddings"
                                          : "--seq-length",
            largest_table)
      : longest.value_or(0);
}

void apply_mlp(const ModelFlags& flags, ModelDescription& model) {
  if (flags.exact_gelu) {
    if (flags.openai_gelu) {
      throw ConfigError(
          {.what = "two forms of GELU",
           .where = "--no-bias-gelu-fusion, --openai-gelu",
           .remedy = "leave one of them out"});
    }
    model.activation = model::ActivationKind::gelu;
  }
  if (flags.openai_gelu) {
    model.activation = model::ActivationKind::gelu_tanh;
  }
  if (flags.squared_relu) {
    if (flags.openai_gelu || flags.swiglu) {
      throw ConfigError(
          {.what = "two activations",
           .where = flags.swiglu ? "--squared-relu, --swiglu"
                                 : "--squared-relu, --openai-gelu",
           .remedy = "leave one of them out"});
    }
    model.activation = model::ActivationKind::squared_relu;
  }
  if (flags.swiglu) {
    model.activation = model::ActivationKind::silu;
    model.gated = true;
  }
  model.ffn = said(
      flags.ffn_hidden_size.value_or(
          flags.swiglu ? model::gated_ffn(model.hidden) : 4 * model.hidden),
      "--ffn-hidden-size",
      4 * largest_width);
}

/// Applies what only models that go from left to right have.
void apply_left_to_right(
    ModelKind kind,
    const ModelFlags& flags,
    ModelDescription& model) {
  for (const auto& [is_given, flag] :
       {std::pair{flags.qk_layernorm, "--qk-layernorm"},
        std::pair{flags.parallel_residual, "--use-parallel-residual"}}) {
    if (is_given && kind != ModelKind::gpt) {
      throw ConfigError(
          {.what = fmt::format("a {} does not have this", name_of(kind)),
           .where = flag,
           .remedy = "leave it out"});
    }
  }
  model.query_key_norm = flags.qk_layernorm;
  model.parallel_residual = flags.parallel_residual;
}

void apply_experts(
    ModelKind kind,
    const MoeFlags& flags,
    ModelDescription& model) {
  if (!has_experts(flags)) {
    return;
  }
  check_expert_layers(flags, model.layers);
  if (kind == ModelKind::t5) { // the decoder has experts in the same layers
    check_expert_layers(flags, model.decoder_layers);
  }
  const std::int64_t in_one = 3 * model.hidden * model.ffn;
  for (const std::int64_t count : flags.num_experts) {
    said(count, "--num-experts", most_in_experts / in_one);
  }
  model.experts = model::ExpertsDescription{
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
      .noise = flags.noise,
      .loss_coefficient = flags.loss_coeff};
}

void check_division(const ModelDescription& model, std::int64_t ranks) {
  struct Divided {
    std::int64_t whole;
    const char* flag;
    const char* what;
  };
  // Fewer heads of keys and values than ranks are shared by several ranks each.
  const bool shared = ranks % model.key_value_heads == 0;
  for (const auto& [whole, flag, what] :
       {Divided{model.heads, "--num-attention-heads", "heads"},
        Divided{
            shared ? ranks : model.key_value_heads,
            "--num-key-value-heads",
            "heads of keys and values"},
        Divided{
            model.ffn,
            "--ffn-hidden-size",
            "columns of the feed-forward part"}}) {
    if (whole % ranks != 0) {
      throw ConfigError(
          {.what = fmt::format(
               "{} {} do not divide over {} tensor parallel ranks",
               what,
               whole,
               ranks),
           .where = flag});
    }
  }
}

} // namespace

ModelDescription describe_model(
    ModelKind kind,
    const Flags& flags,
    std::int64_t vocabulary) {
  const ModelFlags& given = flags.model;
  ModelDescription model = preset_of(kind, flags, sizes_of(flags, vocabulary));
  if (kind == ModelKind::t5 && given.decoder_num_layers) {
    model.decoder_layers =
        said(given.decoder_num_layers, "--decoder-num-layers", most_layers);
  }
  apply_heads(given, model);
  apply_positions(kind, flags, model);
  apply_mlp(given, model);
  model.norm = given.normalization;
  model.norm_epsilon = given.norm_epsilon;
  if (given.disable_bias_linear) {
    model.attention_bias = false;
    model.query_key_value_bias = given.add_qkv_bias;
    model.mlp_bias = false;
  }
  apply_left_to_right(kind, given, model);
  if (given.untie_embeddings) {
    model.tied_head = false;
  }
  model.attention_dropout = flags.regularization.attention_dropout;
  if (kind == ModelKind::gpt && model.norm == model::NormKind::rms_norm &&
      model.position == model::PositionKind::rotary) {
    model.family = model::ModelFamily::llama;
  }
  apply_experts(kind, flags.moe, model);
  check_division(model, flags.distributed.tensor_parallel);
  model::check(model, "the model that the flags describe");
  return model;
}

std::int64_t expected_vocabulary(ModelKind kind, const TokenizerFlags& flags) {
  if (flags.vocab_size) {
    return said(flags.vocab_size, "--vocab-size", largest_table);
  }
  /// Ids of the files that the peers' documents name.
  struct Published {
    std::string_view tokenizer;
    std::int64_t ids = 0;
    std::int64_t extra = 0; ///< added where --vocab-extra-ids does not say
  };
  constexpr std::array published{
      Published{"GPT2BPETokenizer", 50257},
      Published{"RobertaTokenizer", 50265},
      Published{"BertWordPieceLowerCase", 30522},
      Published{"BertWordPieceCase", 28996, 100}};
  const std::string type = flags.type.value_or(
      flags.merge_file && !flags.model ? "GPT2BPETokenizer" : "");
  for (const Published& each : published) {
    if (each.tokenizer == type) {
      const std::int64_t extra = flags.vocab_extra_ids > 0
          ? flags.vocab_extra_ids
          : kind == ModelKind::t5 ? 100
                                  : each.extra;
      return each.ids + std::min(extra, largest_table);
    }
  }
  throw ConfigError(
      {.what = "the size of the vocabulary is not said",
       .where = "--vocab-size",
       .remedy = "give it; the tokenizer's files are not read here"});
}

std::int64_t sequence_length(const DataFlags& flags) {
  return said(text_length(flags), "--seq-length", largest_table);
}

} // namespace cairn::config
