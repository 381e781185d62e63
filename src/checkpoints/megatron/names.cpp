#include "checkpoints/megatron/names.h"

#include "checkpoints/tensors/name_pattern.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

constexpr std::string_view core_layers = "decoder.layers.";
constexpr std::string_view core_encoder_layers = "encoder.layers.";

struct NameRule {
  std::string_view ours;
  std::string_view theirs;
  Half half_if_gated = Half::none;
};

// Names within the encoder or decoder.
// clang-format off
constexpr NameRule stack_rules[] = {
  {"layers.#.input_norm.*", "layers.#.input_layernorm.*"},
  {"layers.#.attention.query_key_value.*", "layers.#.self_attention.query_key_value.*"},
  {"layers.#.attention.query_norm.*", "layers.#.self_attention.q_layernorm.*"},
  {"layers.#.attention.key_norm.*", "layers.#.self_attention.k_layernorm.*"},
  {"layers.#.attention.dense.*", "layers.#.self_attention.dense.*"},
  {"layers.#.post_attention_norm.*", "layers.#.post_attention_layernorm.*"},
  {"layers.#.cross_attention.query.*", "layers.#.inter_attention.query.*"},
  {"layers.#.cross_attention.key_value.*", "layers.#.inter_attention.key_value.*"},
  {"layers.#.cross_attention.dense.*", "layers.#.inter_attention.dense.*"},
  {"layers.#.post_cross_attention_norm.*", "layers.#.post_inter_attention_layernorm.*"},
  {"layers.#.mlp.gate.*", "layers.#.mlp.dense_h_to_4h.*", Half::first},
  {"layers.#.mlp.up.*", "layers.#.mlp.dense_h_to_4h.*", Half::second},
  {"layers.#.mlp.down.*", "layers.#.mlp.dense_4h_to_h.*"},
  // Experts are those of Megatron-DeepSpeed, under the names of modern_name().
  {"layers.#.mlp.router.weight", "layers.#.mlp.router.weight"},
  {"layers.#.mlp.experts.gate.*", "layers.#.mlp.experts.experts.dense_h_to_4h.*", Half::first},
  {"layers.#.mlp.experts.up.*", "layers.#.mlp.experts.experts.dense_h_to_4h.*", Half::second},
  {"layers.#.mlp.experts.down.*", "layers.#.mlp.experts.experts.dense_4h_to_h.*"},
  {"layers.#.mlp.residual.gate.*", "layers.#.mlp.mlp.dense_h_to_4h.*", Half::first},
  {"layers.#.mlp.residual.up.*", "layers.#.mlp.mlp.dense_h_to_4h.*", Half::second},
  {"layers.#.mlp.residual.down.*", "layers.#.mlp.mlp.dense_4h_to_h.*"},
  {"layers.#.mlp.coefficient.*", "layers.#.mlp.coefficient.*"},
  {"final_norm.*", "final_layernorm.*"},
};

constexpr NameRule model_rules[] = {
  {"embedding.word.weight", "language_model/embedding/word_embeddings/weight"},
  {"embedding.position.weight", "language_model/embedding/position_embeddings/weight"},
  {"embedding.token_type.weight", "language_model/embedding/tokentype_embeddings/weight"},
  {"pooler.*", "language_model/pooler/dense.*"},
  {"mlm.dense.*", "lm_head/dense.*"},
  {"mlm.norm.*", "lm_head/layernorm.*"},
  {"mlm.bias", "lm_head/bias"},
  {"next_sentence.*", "binary_head/*"},
  {"head.weight", "language_model/output_layer/weight"},
  {"head.bias", "lm_head/bias"},
};

// Names of Megatron-Core, within its encoder or decoder. The norms before
// attention and MLP are layers of their own ("local"), or parts of the linear
// layers after them (Transformer Engine).
constexpr NameRule core_stack_rules[] = {
  {"layers.#.attention.query_key_value.*", "layers.#.self_attention.linear_qkv.*"},
  {"layers.#.attention.query_norm.*", "layers.#.self_attention.q_layernorm.*"},
  {"layers.#.attention.key_norm.*", "layers.#.self_attention.k_layernorm.*"},
  {"layers.#.attention.dense.*", "layers.#.self_attention.linear_proj.*"},
  {"layers.#.cross_attention.query.*", "layers.#.cross_attention.linear_q.*"},
  {"layers.#.cross_attention.key_value.*", "layers.#.cross_attention.linear_kv.*"},
  {"layers.#.cross_attention.dense.*", "layers.#.cross_attention.linear_proj.*"},
  {"layers.#.mlp.router.weight", "layers.#.mlp.router.weight"},
  {"layers.#.mlp.experts.gate.*", "layers.#.mlp.experts.experts.linear_fc1.*", Half::first},
  {"layers.#.mlp.experts.up.*", "layers.#.mlp.experts.experts.linear_fc1.*", Half::second},
  {"layers.#.mlp.experts.down.*", "layers.#.mlp.experts.experts.linear_fc2.*"},
  {"layers.#.mlp.gate.*", "layers.#.mlp.linear_fc1.*", Half::first},
  {"layers.#.mlp.up.*", "layers.#.mlp.linear_fc1.*", Half::second},
  {"layers.#.mlp.down.*", "layers.#.mlp.linear_fc2.*"},
  {"final_norm.*", "final_layernorm.*"},
};
constexpr NameRule core_model_rules[] = {
  {"embedding.word.weight", "embedding.word_embeddings.weight"},
  {"embedding.position.weight", "embedding.position_embeddings.weight"},
  {"embedding.token_type.weight", "embedding.tokentype_embeddings.weight"},
  {"pooler.*", "pooler.dense.*"},
  {"mlm.dense.*", "lm_head.dense.*"},
  {"mlm.norm.*", "lm_head.layer_norm.*"},
  {"mlm.bias", "output_layer.bias"},
  {"next_sentence.*", "binary_head.*"},
  {"head.weight", "output_layer.weight"},
  {"head.bias", "lm_head.output_layer.bias"},
};
constexpr NameRule local_norm_rules[] = {
  {"layers.#.input_norm.*", "layers.#.input_layernorm.*"},
  {"layers.#.post_attention_norm.*", "layers.#.pre_mlp_layernorm.*"},
};
constexpr NameRule fused_norm_rules[] = {
  {"layers.#.input_norm.*", "layers.#.self_attention.linear_qkv.layer_norm_*"},
  {"layers.#.post_attention_norm.*", "layers.#.mlp.linear_fc1.layer_norm_*"},
};
// With attention to an encoder there is one norm more.
constexpr NameRule local_cross_norm_rules[] = {
  {"layers.#.input_norm.*", "layers.#.input_layernorm.*"},
  {"layers.#.post_attention_norm.*", "layers.#.pre_cross_attn_layernorm.*"},
  {"layers.#.post_cross_attention_norm.*", "layers.#.pre_mlp_layernorm.*"},
};
constexpr NameRule fused_cross_norm_rules[] = {
  {"layers.#.input_norm.*", "layers.#.self_attention.linear_qkv.layer_norm_*"},
  {"layers.#.post_attention_norm.*", "layers.#.pre_cross_attn_layernorm.*"},
  {"layers.#.post_cross_attention_norm.*", "layers.#.mlp.linear_fc1.layer_norm_*"},
};
// clang-format on

std::optional<Name> lookup(
    std::span<const NameRule> rules,
    std::string_view parameter,
    std::string_view prefix,
    bool gated) {
  for (const NameRule& rule : rules) {
    if (const auto match = match_pattern(rule.ours, parameter)) {
      return Name{
          std::string(prefix) + fill_pattern(rule.theirs, *match),
          gated ? rule.half_if_gated : Half::none};
    }
  }
  return std::nullopt;
}

void replace(std::string& name, std::string_view from, std::string_view to) {
  if (const auto at = name.find(from); at != std::string::npos) {
    name.replace(at, from.size(), to);
  }
}

/// The rules of a layer's norms.
std::span<const NameRule> norm_rules(bool fused, bool cross) {
  if (cross) {
    return fused ? std::span<const NameRule>(fused_cross_norm_rules)
                 : std::span<const NameRule>(local_cross_norm_rules);
  }
  return fused ? std::span<const NameRule>(fused_norm_rules)
               : std::span<const NameRule>(local_norm_rules);
}

std::optional<Name> core_name(
    const model::ModelDescription& d,
    const std::string& parameter,
    MegatronNames names) {
  // The only stack of layers is a BERT's encoder, or a decoder.
  constexpr std::string_view encoder = "encoder.";
  constexpr std::string_view decoder = "decoder.";
  std::string_view stack =
      d.family == model::ModelFamily::bert ? encoder : decoder;
  std::string_view rest = parameter;
  for (const std::string_view own : {encoder, decoder}) {
    if (d.family == model::ModelFamily::t5 && rest.starts_with(own)) {
      stack = own;
      rest.remove_prefix(own.size());
      break;
    }
  }
  if (auto found = lookup(core_stack_rules, rest, stack, d.gated)) {
    return found;
  }
  // The norm before a router is a layer of its own.
  const bool before_router =
      has_experts(d) && rest.find(".post_attention_norm.") != rest.npos;
  const bool cross = d.family == model::ModelFamily::t5 && stack == decoder;
  const auto norms =
      norm_rules(names == MegatronNames::core && !before_router, cross);
  if (auto found = lookup(norms, rest, stack, d.gated)) {
    return found;
  }
  return lookup(core_model_rules, parameter, "", d.gated);
}

} // namespace

std::optional<Name> megatron_name(
    const model::ModelDescription& d,
    const std::string& parameter,
    MegatronNames names) {
  if (names != MegatronNames::legacy) {
    return core_name(d, parameter, names);
  }
  constexpr std::string_view encoder = "language_model/encoder/";
  constexpr std::string_view decoder = "language_model/decoder/";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> stacks{
      {{"encoder.", encoder}, {"decoder.", decoder}, {"", encoder}}};
  for (const auto& [ours, theirs] : stacks) {
    if (parameter.starts_with(ours)) {
      const auto rest = std::string_view(parameter).substr(ours.size());
      if (auto found = lookup(stack_rules, rest, theirs, d.gated)) {
        return found;
      }
    }
  }
  return lookup(model_rules, parameter, "", d.gated);
}

std::string_view word_embedding_name(MegatronNames names) {
  return names == MegatronNames::legacy
      ? "language_model.embedding.word_embeddings.weight"
      : "embedding.word_embeddings.weight";
}

std::string_view tied_head_path(MegatronNames names) {
  return names == MegatronNames::legacy ? "word_embeddings_for_head/weight"
                                        : "output_layer.weight";
}

std::string modern_name(std::string name) {
  if (name.starts_with(core_layers) || name.starts_with(core_encoder_layers)) {
    replace(
        name,
        ".self_attention.linear_qkv.layer_norm_",
        ".input_layernorm.");
    replace(name, ".mlp.linear_fc1.layer_norm_", ".pre_mlp_layernorm.");
    return name;
  }
  replace(name, "language_model.transformer.", "language_model.encoder.");
  for (const std::string_view kind : {"word", "position", "tokentype"}) {
    const std::string old = "language_model." + std::string(kind);
    if (name.starts_with(old + "_embeddings")) {
      name.insert(std::string_view("language_model.").size(), "embedding.");
    }
  }
  if (name.starts_with("language_model.encoder.") ||
      name.starts_with("language_model.decoder.")) {
    replace(name, ".attention.", ".self_attention.");
    replace(name, "_norm.", "_layernorm.");
    replace(
        name,
        ".mlp.deepspeed_moe.experts.deepspeed_experts.",
        ".mlp.experts.local_experts.");
    replace(name, ".mlp.deepspeed_moe.gate.wg.", ".mlp.router.");
  }
  replace(name, "lm_head.norm.", "lm_head.layernorm.");
  return name;
}

bool is_ignored(std::string_view name) {
  // A T5 of Megatron-Core has its positions under two names.
  return name.ends_with("_extra_state") || name.ends_with(".inv_freq") ||
      name == second_core_positions;
}

std::optional<LayerName> layer_name(std::string_view name) {
  for (const std::string_view stack :
       {std::string_view("language_model.encoder.layers."),
        std::string_view("language_model.decoder.layers."),
        core_layers,
        core_encoder_layers}) {
    if (!name.starts_with(stack)) {
      continue;
    }
    LayerName result{.stack = stack};
    const char* const end = name.data() + name.size();
    const auto [rest, error] =
        std::from_chars(name.data() + stack.size(), end, result.layer);
    if (error == std::errc() && result.layer >= 0 && rest != end &&
        *rest == '.') {
      result.rest = {rest, static_cast<std::size_t>(end - rest)};
      return result;
    }
  }
  return std::nullopt;
}

} // namespace cairn::checkpoints::megatron
