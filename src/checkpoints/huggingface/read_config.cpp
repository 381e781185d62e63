#include "checkpoints/huggingface/activation_names.h"
#include "checkpoints/huggingface/config_reader.h"

#include <cairn/checkpoints/huggingface.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace cairn::checkpoints {

namespace {

using huggingface::ConfigReader;

model::ActivationKind activation_of(
    std::string_view name,
    const ConfigReader& config) {
  for (const auto& [known, kind] : huggingface::activation_names) {
    if (known == name) {
      return kind;
    }
  }
  config.refuse("an activation that is not supported", std::string(name));
}

std::optional<std::int64_t> read_token(
    const ConfigReader& config,
    const char* key) {
  const auto id = config.find_integer(key);
  if (id && (*id < -1 || *id > std::int64_t{1} << 30)) {
    config.refuse("not a token", fmt::format("{} is {}", key, *id));
  }
  return id;
}

void read_tokens(const ConfigReader& config, model::ModelDescription& d) {
  d.begin_token = read_token(config, "bos_token_id");
  d.end_token = read_token(config, "eos_token_id");
  d.pad_token = read_token(config, "pad_token_id");
  d.decoder_start_token = read_token(config, "decoder_start_token_id");
}

void read_gpt2(const ConfigReader& config, model::ModelDescription& d) {
  config.require("scale_attn_weights", true);
  config.require("scale_attn_by_inverse_layer_idx", false);
  config.require("add_cross_attention", false);
  d.layers = config.integer("n_layer", 12);
  d.hidden = config.integer("n_embd", 768);
  d.heads = config.integer("n_head", 12);
  d.ffn = config.find_integer("n_inner").value_or(
      d.hidden < std::int64_t{1} << 30 ? 4 * d.hidden : 0);
  d.vocabulary = config.integer("vocab_size", 50257);
  d.positions = config.integer("n_positions", 1024);
  d.norm_epsilon = config.real("layer_norm_epsilon", 1e-5);
  d.activation =
      activation_of(config.text("activation_function", "gelu_new"), config);
  d.tied_head = config.boolean("tie_word_embeddings", true);
  d.dropout = config.real("resid_pdrop", 0.1);
  d.attention_dropout = config.real("attn_pdrop", 0.1);
}

/// The factor of cosine and sine that a configuration names or means.
double read_attention_factor(const ConfigReader& config, double factor) {
  const auto grown = [&](double by) {
    return factor <= 1 ? 1 : 0.1 * by * std::log(factor) + 1;
  };
  const double above = config.real("mscale", 0);
  const double below = config.real("mscale_all_dim", 0);
  return config.real(
      "attention_factor",
      above != 0 && below != 0 ? grown(above) / grown(below) : grown(1));
}

model::YarnScaling read_yarn(const ConfigReader& config, double factor) {
  return {
      .fast_turns = config.real("beta_fast", 32),
      .slow_turns = config.real("beta_slow", 1),
      .attention_factor = read_attention_factor(config, factor),
      .whole_pairs = config.boolean("truncate", true)};
}

/// LongRoPE, whose original context stands with the scaling or, as in Phi-3's
/// configurations, beside it.
void read_longrope(
    const ConfigReader& config,
    const ConfigReader& whole,
    std::int64_t positions,
    model::RopeScaling& scaling) {
  const auto original = whole.find_integer("original_max_position_embeddings");
  scaling.original_positions = original.value_or(
      config.integer("original_max_position_embeddings", positions));
  const auto length = static_cast<double>(scaling.original_positions);
  scaling.factor = original || !config.has("factor")
      ? static_cast<double>(positions) / length
      : config.real("factor", 1);
  scaling.longrope = model::LongScaling{
      .short_factors = config.reals("short_factor"),
      .long_factors = config.reals("long_factor"),
      .attention_factor = config.real(
          "attention_factor",
          scaling.factor <= 1
              ? 1
              : std::sqrt(1 + std::log(scaling.factor) / std::log(length)))};
}

/// `whole`: the configuration that the scaling is a part of.
std::optional<model::RopeScaling> read_scaling(
    const ConfigReader& config,
    const ConfigReader& whole,
    std::int64_t positions) {
  std::string kind = config.text("rope_type", config.text("type", "default"));
  if (kind == "default") {
    return std::nullopt;
  }
  // Its names in the first files of Phi-3.
  if (kind == "su" || (kind == "yarn" && config.has("short_factor"))) {
    kind = "longrope";
  }
  model::RopeScaling scaling{.kind = kind, .factor = config.real("factor", 1)};
  if (kind == "llama3") {
    scaling.low_frequency_factor = config.real("low_freq_factor", 1);
    scaling.high_frequency_factor = config.real("high_freq_factor", 4);
    scaling.original_positions =
        config.integer("original_max_position_embeddings", 8192);
  } else if (kind == "yarn") {
    scaling.original_positions =
        config.integer("original_max_position_embeddings", positions);
    scaling.yarn = read_yarn(config, scaling.factor);
  } else if (kind == "longrope") {
    read_longrope(config, whole, positions, scaling);
  } else if (kind != "linear" && kind != "dynamic") {
    config.refuse("a scaling of rotary positions that is not supported", kind);
  }
  return scaling;
}

/// Rotary positions; `theta` holds unless newer keys say otherwise.
void read_rotary(
    const ConfigReader& config,
    double theta,
    model::ModelDescription& d) {
  d.position = model::PositionKind::rotary;
  d.rope_theta = theta;
  if (const auto rope = config.find_object("rope_parameters")) {
    d.rope_theta = rope->real("rope_theta", d.rope_theta);
    d.rope_scaling = read_scaling(*rope, config, d.positions);
  } else if (const auto scaling = config.find_object("rope_scaling")) {
    d.rope_scaling = read_scaling(*scaling, config, d.positions);
  }
}

/// Sizes for keys that a configuration leaves out.
struct LlamaDefaults {
  std::int64_t hidden = 4096;
  std::int64_t ffn = 11008;
  std::int64_t vocabulary = 32000;
  std::int64_t positions = 2048;
  double norm_epsilon = 1e-6;
  std::int64_t key_value_heads = 0; ///< 0: as many as heads
  std::int64_t head_size = 0;       ///< 0: hidden / heads
  double rope_theta = 10000;
};

void read_llama(
    const ConfigReader& config,
    const LlamaDefaults& defaults,
    model::ModelDescription& d) {
  d.layers = config.integer("num_hidden_layers", 32);
  d.hidden = config.integer("hidden_size", defaults.hidden);
  d.heads = config.integer("num_attention_heads", 32);
  d.key_value_heads = config.integer(
      "num_key_value_heads",
      defaults.key_value_heads > 0 ? defaults.key_value_heads : d.heads);
  d.head_size = config.integer(
      "head_dim",
      defaults.head_size > 0 ? defaults.head_size
                             : d.hidden / std::max<std::int64_t>(d.heads, 1));
  d.ffn = config.integer("intermediate_size", defaults.ffn);
  d.vocabulary = config.integer("vocab_size", defaults.vocabulary);
  d.positions = config.integer("max_position_embeddings", defaults.positions);
  read_rotary(config, config.real("rope_theta", defaults.rope_theta), d);
  d.norm = model::NormKind::rms_norm;
  d.norm_epsilon = config.real("rms_norm_eps", defaults.norm_epsilon);
  d.activation = activation_of(config.text("hidden_act", "silu"), config);
  d.gated = true;
  d.attention_bias = config.boolean("attention_bias", false);
  d.mlp_bias = config.boolean("mlp_bias", false);
  d.tied_head = config.boolean("tie_word_embeddings", false);
  d.attention_dropout = config.real("attention_dropout", 0);
}

constexpr LlamaDefaults qwen_defaults{
    .ffn = 22016,
    .vocabulary = 151936,
    .positions = 32768};

/// A sliding window is that of a model whose texts are no longer than the
/// window.
void limit_to_window(const ConfigReader& config, model::ModelDescription& d) {
  if (const auto window = config.find_integer("sliding_window")) {
    d.positions = std::min(d.positions, *window);
  }
}

/// Phi-3: a Llama with other defaults. Its sliding window is that of a Llama
/// whose texts are no longer than the window.
void read_phi3(const ConfigReader& config, model::ModelDescription& d) {
  if (config.real("partial_rotary_factor", 1) != 1) {
    config.refuse(
        "rotary positions in a part of every head are not supported",
        "partial_rotary_factor");
  }
  if (config.real("resid_pdrop", 0) != 0 || config.real("embd_pdrop", 0) != 0) {
    config.refuse(
        "dropout outside attention is not supported in a Llama",
        "resid_pdrop, embd_pdrop");
  }
  read_llama(
      config,
      {.hidden = 3072,
       .ffn = 8192,
       .vocabulary = 32064,
       .positions = 4096,
       .norm_epsilon = 1e-5},
      d);
  limit_to_window(config, d);
}

void read_qwen2(const ConfigReader& config, model::ModelDescription& d) {
  read_llama(config, qwen_defaults, d);
  if (config.boolean("use_sliding_window", false)) {
    limit_to_window(config, d);
  }
  d.attention_bias = false;
  d.query_key_value_bias = true;
  d.mlp_bias = false;
}

void read_qwen3(const ConfigReader& config, model::ModelDescription& d) {
  LlamaDefaults defaults = qwen_defaults;
  defaults.head_size = 128;
  read_llama(config, defaults, d);
  if (config.boolean("use_sliding_window", false)) {
    limit_to_window(config, d);
  }
  d.query_key_norm = true;
  d.mlp_bias = false;
}

void read_mistral(const ConfigReader& config, model::ModelDescription& d) {
  read_llama(
      config,
      {.ffn = 14336, .positions = 4096 * 32, .key_value_heads = 8},
      d);
  limit_to_window(config, d);
  d.attention_bias = false;
  d.mlp_bias = false;
}

/// Mixtral: experts in every layer, none of which drops a token.
void read_mixtral(const ConfigReader& config, model::ModelDescription& d) {
  read_llama(
      config,
      {.ffn = 14336,
       .positions = 4096 * 32,
       .norm_epsilon = 1e-5,
       .key_value_heads = 8,
       .rope_theta = 1e6},
      d);
  limit_to_window(config, d);
  d.attention_bias = false;
  d.mlp_bias = false;
  const std::int64_t experts = config.integer("num_local_experts", 8);
  const std::int64_t top_k = config.integer("num_experts_per_tok", 2);
  if (experts < 2 || top_k < 2) {
    config.refuse(
        "a token goes to at least two of several experts",
        fmt::format("{} of {} experts", top_k, experts));
  }
  if (config.real("router_jitter_noise", 0) != 0) {
    config.refuse(
        "noise on the tokens of experts is not supported",
        "router_jitter_noise");
  }
  d.experts = model::ExpertsDescription{
      .counts = {experts},
      .interval = 1,
      .top_k = top_k,
      .drop_tokens = false,
      .random_selection = false,
      .sample_second = false,
      .loss_coefficient = config.boolean("output_router_logits", false)
          ? config.real("router_aux_loss_coef", 0.001)
          : 0};
}

/// GPT-NeoX, whose rotary positions turn a part of every head.
void read_neox(const ConfigReader& config, model::ModelDescription& d) {
  d.layers = config.integer("num_hidden_layers", 44);
  d.hidden = config.integer("hidden_size", 6144);
  d.heads = config.integer("num_attention_heads", 64);
  d.ffn = config.integer("intermediate_size", 24576);
  d.vocabulary = config.integer("vocab_size", 50432);
  d.positions = config.integer("max_position_embeddings", 2048);
  read_rotary(
      config,
      config.real("rotary_emb_base", config.real("rope_theta", 10000)),
      d);
  double part = config.real("rotary_pct", 0.25);
  if (const auto rope = config.find_object("rope_parameters")) {
    part = rope->real("partial_rotary_factor", part);
  }
  if (!(part > 0 && part <= 1)) {
    config.refuse("not a part of a head", fmt::format("rotary_pct {}", part));
  }
  d.head_size = d.heads > 0 ? d.hidden / d.heads : 0;
  if (part < 1) {
    d.rotary_size =
        static_cast<std::int64_t>(static_cast<double>(d.head_size) * part);
    if (d.rotary_size < 2 || d.rotary_size % 2 != 0) {
      config.refuse(
          "rotary positions turn an even number of elements of a head",
          fmt::format("{} of {}", d.rotary_size, d.head_size));
    }
  }
  d.parallel_residual = config.boolean("use_parallel_residual", true);
  d.norm_epsilon = config.real("layer_norm_eps", 1e-5);
  d.activation = activation_of(config.text("hidden_act", "gelu"), config);
  d.attention_bias = config.boolean("attention_bias", true);
  d.tied_head = config.boolean("tie_word_embeddings", false);
  d.dropout = config.real("hidden_dropout", 0);
  d.attention_dropout = config.real("attention_dropout", 0);
}

void read_bert(const ConfigReader& config, model::ModelDescription& d) {
  config.require("is_decoder", false);
  config.require("add_cross_attention", false);
  if (const std::string position =
          config.text("position_embedding_type", "absolute");
      position != "absolute") {
    config.refuse("positions that are not supported", position);
  }
  d.layers = config.integer("num_hidden_layers", 12);
  d.hidden = config.integer("hidden_size", 768);
  d.heads = config.integer("num_attention_heads", 12);
  d.ffn = config.integer("intermediate_size", 3072);
  d.vocabulary = config.integer("vocab_size", 30522);
  d.positions = config.integer("max_position_embeddings", 512);
  d.token_types = config.integer("type_vocab_size", 2);
  d.norm_place = model::NormPlace::after;
  d.norm_epsilon = config.real("layer_norm_eps", 1e-12);
  d.activation = activation_of(config.text("hidden_act", "gelu"), config);
  d.tied_head = config.boolean("tie_word_embeddings", true);
  d.dropout = config.real("hidden_dropout_prob", 0.1);
  d.attention_dropout = config.real("attention_probs_dropout_prob", 0.1);
}

void read_t5(const ConfigReader& config, model::ModelDescription& d) {
  d.layers = config.integer("num_layers", 6);
  d.decoder_layers = config.integer("num_decoder_layers", d.layers);
  d.hidden = config.integer("d_model", 512);
  d.heads = config.integer("num_heads", 8);
  d.head_size = config.integer("d_kv", 64);
  d.ffn = config.integer("d_ff", 2048);
  d.vocabulary = config.integer("vocab_size", 32128);
  d.position = model::PositionKind::relative;
  d.relative_buckets = config.integer("relative_attention_num_buckets", 32);
  d.relative_distance = config.integer("relative_attention_max_distance", 128);
  d.norm = model::NormKind::rms_norm;
  d.norm_epsilon = config.real("layer_norm_epsilon", 1e-6);
  std::string mlp = config.text("feed_forward_proj", "relu");
  d.gated = mlp.starts_with("gated-");
  // transformers itself takes the gated "gelu" of T5 v1.1 for the tanh variant.
  d.activation = mlp == "gated-gelu"
      ? model::ActivationKind::gelu_tanh
      : activation_of(mlp.substr(d.gated ? 6 : 0), config);
  d.attention_bias = false;
  d.mlp_bias = false;
  d.tied_head = config.boolean("tie_word_embeddings", true);
  d.scaled_output = config.boolean("scale_decoder_outputs", d.tied_head);
  d.dropout = config.real("dropout_rate", 0.1);
  d.attention_dropout = d.dropout;
}

/// Models that are Llamas with some differences.
struct LlamaLike {
  std::string_view type;
  void (*read)(const ConfigReader&, model::ModelDescription&);
};
constexpr LlamaLike like_llama[] = {
    {"phi3", read_phi3},
    {"mistral", read_mistral},
    {"mixtral", read_mixtral},
    {"qwen2", read_qwen2},
    {"qwen3", read_qwen3}};

const LlamaLike* find_llama(std::string_view type) {
  const auto* const found =
      std::ranges::find(like_llama, type, &LlamaLike::type);
  return found == std::end(like_llama) ? nullptr : found;
}

} // namespace

model::ModelDescription model_description_from_huggingface(
    std::string_view text,
    const std::string& where) {
  const ConfigReader config(text, where);
  model::ModelDescription d;
  const std::string type = config.text("model_type", "");
  read_tokens(config, d);
  if (type == "gpt2") {
    read_gpt2(config, d);
  } else if (type == "llama") {
    d.family = model::ModelFamily::llama;
    read_llama(config, {}, d);
  } else if (const auto* llama = find_llama(type)) {
    d.family = model::ModelFamily::llama;
    llama->read(config, d);
  } else if (type == "gpt_neox") {
    read_neox(config, d);
  } else if (type == "bert" || type == "megatron-bert") {
    d.family = model::ModelFamily::bert;
    read_bert(config, d);
    if (type == "megatron-bert") {
      d.norm_place = model::NormPlace::before;
    }
  } else if (type == "roberta") {
    d.family = model::ModelFamily::roberta;
    read_bert(config, d);
    d.position_offset = d.pad_token.value_or(1) + 1;
  } else if (type == "t5") {
    d.family = model::ModelFamily::t5;
    read_t5(config, d);
  } else {
    config.refuse(
        "a model that is not supported (gpt2, gpt_neox, llama, "
        "mistral, mixtral, qwen2, qwen3, phi3, bert, megatron-bert, roberta "
        "and t5 are)",
        fmt::format("model_type \"{}\"", type));
  }
  if (d.key_value_heads == 0) {
    d.key_value_heads = d.heads;
  }
  if (d.head_size == 0 && d.heads > 0) {
    if (d.hidden % d.heads != 0) {
      config.refuse(
          "heads do not divide the hidden size",
          fmt::format("{} and {}", d.heads, d.hidden));
    }
    d.head_size = d.hidden / d.heads;
  }
  d.padded_vocabulary = d.vocabulary;
  check(d, where);
  return d;
}

} // namespace cairn::checkpoints
