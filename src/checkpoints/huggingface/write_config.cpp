#include "checkpoints/huggingface/activation_names.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/huggingface.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <optional>

namespace cairn::checkpoints {

namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of(model::ActivationKind activation) {
  for (const auto& [name, kind] : huggingface::activation_names) {
    if (kind == activation) {
      return name;
    }
  }
  throw InternalError({.what = "an activation without a name"});
}

Json token(const std::optional<std::int64_t>& id) {
  return id ? Json(*id) : Json(nullptr);
}

[[noreturn]] void cannot_write(
    const model::ModelDescription& d,
    std::string_view what) {
  throw ConfigError(
      {.what = fmt::format(
           "transformers has no {} with {}",
           model::name_of(d.family),
           what),
       .remedy = "keep the model in Cairn's or Megatron's format"});
}

void write_gpt2(const model::ModelDescription& d, Json& config) {
  config["model_type"] = "gpt2";
  config["architectures"] = {"GPT2LMHeadModel"};
  config["n_layer"] = d.layers;
  config["n_embd"] = d.hidden;
  config["n_head"] = d.heads;
  config["n_inner"] = d.ffn;
  config["n_positions"] = d.positions;
  config["layer_norm_epsilon"] = d.norm_epsilon;
  config["activation_function"] = name_of(d.activation);
  config["resid_pdrop"] = d.dropout;
  config["embd_pdrop"] = d.dropout;
  config["attn_pdrop"] = d.attention_dropout;
}

/// Writes the sizes under the keys that most families use.
void write_sizes(const model::ModelDescription& d, Json& config) {
  config["num_hidden_layers"] = d.layers;
  config["hidden_size"] = d.hidden;
  config["num_attention_heads"] = d.heads;
  config["intermediate_size"] = d.ffn;
  config["max_position_embeddings"] = d.positions;
  config["hidden_act"] = name_of(d.activation);
}

void write_rotary(const model::ModelDescription& d, Json& config) {
  config["rope_theta"] = d.rope_theta;
  if (!d.rope_scaling) {
    config["rope_scaling"] = nullptr;
    return;
  }
  Json& scaling = config["rope_scaling"] = Json::object();
  scaling["rope_type"] = d.rope_scaling->kind;
  scaling["factor"] = d.rope_scaling->factor;
  if (d.rope_scaling->kind == "llama3") {
    scaling["low_freq_factor"] = d.rope_scaling->low_frequency_factor;
    scaling["high_freq_factor"] = d.rope_scaling->high_frequency_factor;
    scaling["original_max_position_embeddings"] =
        d.rope_scaling->original_positions;
  }
  if (const auto& yarn = d.rope_scaling->yarn) {
    scaling["original_max_position_embeddings"] =
        d.rope_scaling->original_positions;
    scaling["beta_fast"] = yarn->fast_turns;
    scaling["beta_slow"] = yarn->slow_turns;
    scaling["attention_factor"] = yarn->attention_factor;
    scaling["truncate"] = yarn->whole_pairs;
  }
  if (const auto& longrope = d.rope_scaling->longrope) {
    scaling["original_max_position_embeddings"] =
        d.rope_scaling->original_positions;
    scaling["short_factor"] = longrope->short_factors;
    scaling["long_factor"] = longrope->long_factors;
    scaling["attention_factor"] = longrope->attention_factor;
    // transformers looks for it beside the scaling as well. A new key moves
    // the others, and so ends the reference to the scaling.
    config["original_max_position_embeddings"] =
        d.rope_scaling->original_positions;
  }
}

/// A name that transformers has for a Llama with some differences, and the
/// biases that such a model may have.
struct LlamaName {
  std::string_view type;
  std::string_view class_stem;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool any_head_size = true; ///< config.json always says how wide heads are
};

LlamaName llama_name(const model::ModelDescription& d) {
  if (has_experts(d)) {
    return {.type = "mixtral", .class_stem = "Mixtral", .any_head_size = false};
  }
  if (d.query_key_norm) {
    return {.type = "qwen3", .class_stem = "Qwen3", .attention_bias = true};
  }
  if (d.query_key_value_bias) {
    return {.type = "qwen2", .class_stem = "Qwen2", .any_head_size = false};
  }
  return {"llama", "Llama", true, true};
}

void check_llama(const model::ModelDescription& d, const LlamaName& name) {
  if (d.dropout != 0) {
    cannot_write(d, "dropout outside attention");
  }
  if (d.query_key_norm && d.query_key_value_bias) {
    cannot_write(d, "norms of queries and keys beside biases of them alone");
  }
  if (has_experts(d) && (d.query_key_norm || d.query_key_value_bias)) {
    cannot_write(d, "experts beside Qwen's attention");
  }
  if (d.attention_bias && !name.attention_bias) {
    cannot_write(d, "experts beside biases in attention");
  }
  if (d.mlp_bias && !name.mlp_bias) {
    cannot_write(d, "biases in the MLP beside experts or Qwen's attention");
  }
  if (has_experts(d) &&
      (d.experts->interval != 1 || d.experts->counts.size() != 1 ||
       d.experts->counts[0] < 2 || d.experts->residual ||
       d.experts->top_k < 2)) {
    cannot_write(
        d,
        "experts unless every layer has as many, a token gets two or more, "
        "and no MLP stands beside them");
  }
}

void write_experts(const model::ExpertsDescription& e, Json& config) {
  config["num_local_experts"] = e.counts[0];
  config["num_experts_per_tok"] = e.top_k;
  config["output_router_logits"] = e.loss_coefficient > 0;
  if (e.loss_coefficient > 0) {
    config["router_aux_loss_coef"] = e.loss_coefficient;
  }
}

void write_llama(const model::ModelDescription& d, Json& config) {
  const LlamaName name = llama_name(d);
  check_llama(d, name);
  config["model_type"] = name.type;
  config["architectures"] = {fmt::format("{}ForCausalLM", name.class_stem)};
  write_sizes(d, config);
  config["num_key_value_heads"] = d.key_value_heads;
  if (name.any_head_size || d.head_size * d.heads != d.hidden) {
    config["head_dim"] = d.head_size;
  }
  config["rms_norm_eps"] = d.norm_epsilon;
  if (name.attention_bias) {
    config["attention_bias"] = d.attention_bias;
  }
  if (name.mlp_bias) {
    config["mlp_bias"] = d.mlp_bias;
  }
  config["attention_dropout"] = d.attention_dropout;
  if (has_experts(d)) {
    write_experts(*d.experts, config);
    config["sliding_window"] = nullptr; // which a Mixtral may have
  }
  write_rotary(d, config);
}

/// The part of a head that turns, so that transformers rounds it down to the
/// same number of elements.
double turned_part(const model::ModelDescription& d) {
  const auto size = static_cast<double>(d.head_size);
  const auto turned = static_cast<double>(rotary_elements(d));
  const double part = turned / size;
  return std::floor(part * size) < turned ? std::nextafter(part, 2.0) : part;
}

/// GPT-NeoX: a GPT with rotary positions.
void write_neox(const model::ModelDescription& d, Json& config) {
  if (!d.mlp_bias || d.query_key_value_bias) {
    cannot_write(d, "such biases");
  }
  config["model_type"] = "gpt_neox";
  config["architectures"] = {"GPTNeoXForCausalLM"};
  write_sizes(d, config);
  config["layer_norm_eps"] = d.norm_epsilon;
  config["attention_bias"] = d.attention_bias;
  config["use_parallel_residual"] = d.parallel_residual;
  config["hidden_dropout"] = d.dropout;
  config["attention_dropout"] = d.attention_dropout;
  config["rotary_pct"] = turned_part(d);
  config["rotary_emb_base"] = d.rope_theta;
  write_rotary(d, config);
}

struct BertName {
  std::string_view type;
  std::string_view class_stem;
};

BertName bert_name(const model::ModelDescription& d) {
  if (d.family == model::ModelFamily::roberta) {
    return {"roberta", "Roberta"};
  }
  return d.norm_place == model::NormPlace::before
      ? BertName{"megatron-bert", "MegatronBert"}
      : BertName{"bert", "Bert"};
}

void write_bert(const model::ModelDescription& d, Json& config) {
  if (d.family == model::ModelFamily::roberta &&
      d.position_offset != d.pad_token.value_or(1) + 1) {
    cannot_write(d, "positions that do not begin after the padding token");
  }
  if (d.token_types == 0) {
    cannot_write(d, "no token types");
  }
  const BertName name = bert_name(d);
  config["model_type"] = name.type;
  config["architectures"] = {fmt::format(
      "{}{}",
      name.class_stem,
      !d.masked_head             ? "Model"
          : d.next_sentence_head ? "ForPreTraining"
                                 : "ForMaskedLM")};
  write_sizes(d, config);
  config["type_vocab_size"] = d.token_types;
  config["layer_norm_eps"] = d.norm_epsilon;
  config["hidden_dropout_prob"] = d.dropout;
  config["attention_probs_dropout_prob"] = d.attention_dropout;
  config["position_embedding_type"] = "absolute";
}

void write_t5(const model::ModelDescription& d, Json& config) {
  config["model_type"] = "t5";
  config["architectures"] = {"T5ForConditionalGeneration"};
  config["is_encoder_decoder"] = true;
  config["num_layers"] = d.layers;
  config["num_decoder_layers"] = d.decoder_layers;
  config["d_model"] = d.hidden;
  config["num_heads"] = d.heads;
  config["d_kv"] = d.head_size;
  config["d_ff"] = d.ffn;
  config["relative_attention_num_buckets"] = d.relative_buckets;
  config["relative_attention_max_distance"] = d.relative_distance;
  config["layer_norm_epsilon"] = d.norm_epsilon;
  if (d.gated && d.activation == model::ActivationKind::gelu) {
    cannot_write(d, "a gated exact gelu");
  }
  config["feed_forward_proj"] = !d.gated ? std::string(name_of(d.activation))
      : d.activation == model::ActivationKind::gelu_tanh
      ? "gated-gelu"
      : fmt::format("gated-{}", name_of(d.activation));
  config["dropout_rate"] = d.dropout;
  config["decoder_start_token_id"] = token(d.decoder_start_token);
  config["scale_decoder_outputs"] = d.scaled_output;
}

bool is_neox(const model::ModelDescription& d) {
  return d.family == model::ModelFamily::gpt2 &&
      d.position == model::PositionKind::rotary;
}

/// The parts of a model that transformers chooses by its family; unset where
/// config.json has a key for them.
struct FixedParts {
  model::NormKind norm = model::NormKind::layer_norm;
  model::PositionKind position = model::PositionKind::learned;
  std::optional<bool> gated = false;
  std::optional<bool> biases = true;
  bool keys_for_each_head = true;
  bool heads_fill_hidden = true;
};

FixedParts fixed_parts(const model::ModelDescription& d) {
  switch (d.family) {
    case model::ModelFamily::gpt2:
      if (is_neox(d)) {
        return {
            .position = model::PositionKind::rotary,
            .biases = std::nullopt};
      }
      return {};
    case model::ModelFamily::llama:
      return {
          .norm = model::NormKind::rms_norm,
          .position = model::PositionKind::rotary,
          .gated = true,
          .biases = std::nullopt,
          .keys_for_each_head = false,
          .heads_fill_hidden = false};
    case model::ModelFamily::t5:
      return {
          .norm = model::NormKind::rms_norm,
          .position = model::PositionKind::relative,
          .gated = std::nullopt,
          .biases = false,
          .heads_fill_hidden = false};
    default:
      return {};
  }
}

/// Refuses a model that transformers builds differently where config.json has
/// no key for the difference.
void check_writable(const model::ModelDescription& d) {
  const FixedParts fixed = fixed_parts(d);
  if (d.norm != fixed.norm) {
    const bool rms = d.norm == model::NormKind::rms_norm;
    cannot_write(d, rms ? "RMSNorm" : "LayerNorm");
  }
  if (d.gated != fixed.gated.value_or(d.gated)) {
    cannot_write(d, d.gated ? "a gated MLP" : "an MLP without a gate");
  }
  if (fixed.keys_for_each_head && d.key_value_heads != d.heads) {
    cannot_write(d, "fewer key/value heads than query heads");
  }
  if (fixed.heads_fill_hidden && d.head_size * d.heads != d.hidden) {
    cannot_write(d, "heads that are not hidden / heads wide");
  }
  if (d.attention_bias != fixed.biases.value_or(d.attention_bias) ||
      d.mlp_bias != fixed.biases.value_or(d.mlp_bias)) {
    cannot_write(d, *fixed.biases ? "linear layers without bias" : "biases");
  }
  if (d.position != fixed.position) {
    cannot_write(d, "such positions");
  }
  if (d.parallel_residual && !is_neox(d)) {
    cannot_write(d, "attention and MLP side by side");
  }
  if (rotary_elements(d) != d.head_size && !is_neox(d)) {
    cannot_write(d, "rotary positions in a part of every head");
  }
}

std::string_view dtype_name(at::ScalarType type) {
  return type == at::kHalf    ? "float16"
      : type == at::kBFloat16 ? "bfloat16"
      : type == at::kDouble   ? "float64"
                              : "float32";
}

} // namespace

std::string huggingface_config(
    const model::ModelDescription& d,
    at::ScalarType type) {
  check_writable(d);
  Json config = Json::object();
  switch (d.family) {
    case model::ModelFamily::gpt2:
      is_neox(d) ? write_neox(d, config) : write_gpt2(d, config);
      break;
    case model::ModelFamily::llama:
      write_llama(d, config);
      break;
    case model::ModelFamily::bert:
    case model::ModelFamily::roberta:
      write_bert(d, config);
      break;
    case model::ModelFamily::t5:
      write_t5(d, config);
      break;
  }
  config["vocab_size"] = d.vocabulary;
  config["tie_word_embeddings"] = d.tied_head;
  config["bos_token_id"] = token(d.begin_token);
  config["eos_token_id"] = token(d.end_token);
  config["pad_token_id"] = token(d.pad_token);
  config["torch_dtype"] = dtype_name(type);
  return config.dump(2) + "\n";
}

} // namespace cairn::checkpoints
