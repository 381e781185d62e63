#include "checkpoints/internal/huggingface_names.h"
#include "checkpoints/tensors/name_pattern.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace cairn::checkpoints::huggingface {

namespace {

// Rules hold for one part of the model, below the prefix of that part's names,
// so that similar stacks and families share rules.
// clang-format off
constexpr NameRule head_rules[] = {
  {"head.weight", Change::none, {"lm_head.weight"}},
};

constexpr NameRule gpt2_rules[] = {
  {"embedding.word.weight", Change::none, {"wte.weight"}},
  {"embedding.position.weight", Change::none, {"wpe.weight"}},
  {"layers.#.input_norm.*", Change::none, {"h.#.ln_1.*"}},
  {"layers.#.attention.query_key_value.*", Change::reorder_columns, {"h.#.attn.c_attn.*"}},
  {"layers.#.attention.dense.*", Change::transpose, {"h.#.attn.c_proj.*"}},
  {"layers.#.post_attention_norm.*", Change::none, {"h.#.ln_2.*"}},
  {"layers.#.mlp.up.*", Change::transpose, {"h.#.mlp.c_fc.*"}, Only::ungated},
  {"layers.#.mlp.down.*", Change::transpose, {"h.#.mlp.c_proj.*"}, Only::ungated},
  {"final_norm.*", Change::none, {"ln_f.*"}},
};
constexpr NamePart gpt2_parts[] = {{"", "transformer.", gpt2_rules}, {"", "", head_rules}};
constexpr std::string_view gpt2_ignored[] = {"transformer.h.#.attn.bias", "transformer.h.#.attn.masked_bias", "lm_head.weight"};
constexpr FamilyNames gpt2{"transformer.", gpt2_parts, gpt2_ignored};

constexpr NameRule llama_rules[] = {
  {"embedding.word.weight", Change::none, {"embed_tokens.weight"}},
  {"layers.#.input_norm.*", Change::none, {"layers.#.input_layernorm.*"}},
  {"layers.#.attention.query_key_value.*", Change::join_heads,
   {"layers.#.self_attn.q_proj.*", "layers.#.self_attn.k_proj.*", "layers.#.self_attn.v_proj.*"}},
  {"layers.#.attention.query_norm.*", Change::none, {"layers.#.self_attn.q_norm.*"}}, // Qwen3
  {"layers.#.attention.key_norm.*", Change::none, {"layers.#.self_attn.k_norm.*"}},
  {"layers.#.attention.dense.*", Change::none, {"layers.#.self_attn.o_proj.*"}},
  {"layers.#.post_attention_norm.*", Change::none, {"layers.#.post_attention_layernorm.*"}},
  {"layers.#.mlp.router.weight", Change::none, {"layers.#.block_sparse_moe.gate.weight"}}, // Mixtral
  {"layers.#.mlp.experts.gate.weight", Change::stack_experts, {"layers.#.block_sparse_moe.experts.@.w1.weight"}},
  {"layers.#.mlp.experts.up.weight", Change::stack_experts, {"layers.#.block_sparse_moe.experts.@.w3.weight"}},
  {"layers.#.mlp.experts.down.weight", Change::stack_experts, {"layers.#.block_sparse_moe.experts.@.w2.weight"}},
  {"layers.#.mlp.gate.*", Change::none, {"layers.#.mlp.gate_proj.*"}},
  {"layers.#.mlp.up.*", Change::none, {"layers.#.mlp.up_proj.*"}, Only::gated},
  {"layers.#.mlp.down.*", Change::none, {"layers.#.mlp.down_proj.*"}, Only::gated},
  {"final_norm.*", Change::none, {"norm.*"}},
};
constexpr NamePart llama_parts[] = {{"", "model.", llama_rules}, {"", "", head_rules}};
constexpr std::string_view llama_ignored[] = {"model.layers.#.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq", "lm_head.weight"};
constexpr FamilyNames llama{"model.", llama_parts, llama_ignored};

// GPT-NeoX: its rows of query_key_value stand as ours do.
constexpr NameRule neox_rules[] = {
  {"embedding.word.weight", Change::none, {"embed_in.weight"}},
  {"layers.#.input_norm.*", Change::none, {"layers.#.input_layernorm.*"}},
  {"layers.#.attention.query_key_value.*", Change::none, {"layers.#.attention.query_key_value.*"}},
  {"layers.#.attention.dense.*", Change::none, {"layers.#.attention.dense.*"}},
  {"layers.#.post_attention_norm.*", Change::none, {"layers.#.post_attention_layernorm.*"}},
  {"layers.#.mlp.up.*", Change::none, {"layers.#.mlp.dense_h_to_4h.*"}, Only::ungated},
  {"layers.#.mlp.down.*", Change::none, {"layers.#.mlp.dense_4h_to_h.*"}, Only::ungated},
  {"final_norm.*", Change::none, {"final_layer_norm.*"}},
};
constexpr NameRule neox_head[] = {
  {"head.weight", Change::none, {"embed_out.weight"}},
};
constexpr NamePart neox_parts[] = {{"", "gpt_neox.", neox_rules}, {"", "", neox_head}};
constexpr std::string_view neox_ignored[] = {"gpt_neox.layers.#.attention.bias", "gpt_neox.layers.#.attention.masked_bias",
              "gpt_neox.layers.#.attention.rotary_emb.inv_freq", "gpt_neox.rotary_emb.inv_freq", "embed_out.weight"};
constexpr FamilyNames neox{"gpt_neox.", neox_parts, neox_ignored};

// Rules that BERT, Megatron's BERT and RoBERTa have in common.
constexpr NameRule bert_rules[] = {
  {"embedding.word.weight", Change::none, {"embeddings.word_embeddings.weight"}},
  {"embedding.position.weight", Change::none, {"embeddings.position_embeddings.weight"}},
  {"embedding.token_type.weight", Change::none, {"embeddings.token_type_embeddings.weight"}},
  {"layers.#.attention.query_key_value.*", Change::join_heads,
   {"encoder.layer.#.attention.self.query.*", "encoder.layer.#.attention.self.key.*", "encoder.layer.#.attention.self.value.*"}},
  {"layers.#.attention.dense.*", Change::none, {"encoder.layer.#.attention.output.dense.*"}},
  {"layers.#.mlp.up.*", Change::none, {"encoder.layer.#.intermediate.dense.*"}, Only::ungated},
  {"layers.#.mlp.down.*", Change::none, {"encoder.layer.#.output.dense.*"}, Only::ungated},
  {"pooler.*", Change::none, {"pooler.dense.*"}},
};
constexpr NameRule norms_behind[] = {
  {"embedding.norm.*", Change::none, {"embeddings.LayerNorm.*"}},
  {"layers.#.attention_norm.*", Change::none, {"encoder.layer.#.attention.output.LayerNorm.*"}},
  {"layers.#.output_norm.*", Change::none, {"encoder.layer.#.output.LayerNorm.*"}},
};
// Norms where Megatron's BERT has them.
constexpr NameRule norms_before[] = {
  {"layers.#.input_norm.*", Change::none, {"encoder.layer.#.attention.ln.*"}},
  {"layers.#.post_attention_norm.*", Change::none, {"encoder.layer.#.ln.*"}},
  {"final_norm.*", Change::none, {"encoder.ln.*"}},
};
constexpr NameRule bert_heads[] = {
  {"mlm.dense.*", Change::none, {"cls.predictions.transform.dense.*"}},
  {"mlm.norm.*", Change::none, {"cls.predictions.transform.LayerNorm.*"}},
  {"mlm.bias", Change::none, {"cls.predictions.bias"}},
  {"next_sentence.*", Change::none, {"cls.seq_relationship.*"}},
  {"head.weight", Change::none, {"cls.predictions.decoder.weight"}},
};
constexpr NameRule roberta_heads[] = {
  {"mlm.dense.*", Change::none, {"lm_head.dense.*"}},
  {"mlm.norm.*", Change::none, {"lm_head.layer_norm.*"}},
  {"mlm.bias", Change::none, {"lm_head.bias"}},
  {"head.weight", Change::none, {"lm_head.decoder.weight"}},
};
constexpr NamePart bert_parts[] = {{"", "bert.", bert_rules}, {"", "bert.", norms_behind}, {"", "", bert_heads}};
constexpr NamePart megatron_bert_parts[] = {{"", "bert.", bert_rules}, {"", "bert.", norms_before}, {"", "", bert_heads}};
constexpr NamePart roberta_parts[] = {{"", "roberta.", bert_rules}, {"", "roberta.", norms_behind}, {"", "", roberta_heads}};
constexpr std::string_view bert_ignored[] = {"bert.embeddings.position_ids", "bert.embeddings.token_type_ids", "cls.predictions.decoder.*"};
constexpr std::string_view roberta_ignored[] = {"roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids", "lm_head.decoder.*"};
constexpr FamilyNames bert{"bert.", bert_parts, bert_ignored};
constexpr FamilyNames megatron_bert{"bert.", megatron_bert_parts, bert_ignored};
constexpr FamilyNames roberta{"roberta.", roberta_parts, roberta_ignored};

constexpr NameRule t5_embedding[] = {
  {"embedding.word.weight", Change::none, {"shared.weight"}},
};
constexpr NameRule t5_stack[] = {
  {"relative_bias.weight", Change::none, {"block.0.layer.0.SelfAttention.relative_attention_bias.weight"}},
  {"layers.#.input_norm.*", Change::none, {"block.#.layer.0.layer_norm.*"}},
  {"layers.#.attention.query_key_value.*", Change::join_heads,
   {"block.#.layer.0.SelfAttention.q.*", "block.#.layer.0.SelfAttention.k.*", "block.#.layer.0.SelfAttention.v.*"}},
  {"layers.#.attention.dense.*", Change::none, {"block.#.layer.0.SelfAttention.o.*"}},
  {"layers.#.post_attention_norm.*", Change::none, {"block.#.layer.1.layer_norm.*"}},
  {"final_norm.*", Change::none, {"final_layer_norm.*"}},
};
constexpr NameRule t5_cross_attention[] = {
  {"cross_attention.query.*", Change::none, {"EncDecAttention.q.*"}},
  {"cross_attention.key_value.*", Change::join_heads, {"EncDecAttention.k.*", "EncDecAttention.v.*"}},
  {"cross_attention.dense.*", Change::none, {"EncDecAttention.o.*"}},
};
constexpr NameRule t5_cross_norm[] = {
  {"post_cross_attention_norm.*", Change::none, {"layer_norm.*"}},
};
constexpr NameRule t5_mlp[] = {
  {"gate.*", Change::none, {"wi_0.*"}},
  {"up.*", Change::none, {"wi_1.*"}, Only::gated},
  {"up.*", Change::none, {"wi.*"}, Only::ungated},
  {"down.*", Change::none, {"wo.*"}},
};
constexpr NamePart t5_parts[] = {
  {"", "", t5_embedding},
  {"encoder.", "encoder.", t5_stack},
  {"encoder.layers.#.mlp.", "encoder.block.#.layer.1.DenseReluDense.", t5_mlp},
  {"decoder.", "decoder.", t5_stack},
  {"decoder.layers.#.", "decoder.block.#.layer.1.", t5_cross_attention},
  {"decoder.layers.#.", "decoder.block.#.layer.2.", t5_cross_norm},
  {"decoder.layers.#.mlp.", "decoder.block.#.layer.2.DenseReluDense.", t5_mlp},
  {"", "", head_rules},
};
// Google's first files have a relative bias of the cross attention, which is
// not used.
constexpr std::string_view t5_ignored[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
              "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
constexpr FamilyNames t5{"", t5_parts, t5_ignored};
// clang-format on

std::string whole_pattern(
    std::string_view beginning,
    std::string_view pattern) {
  return std::string(beginning) + std::string(pattern);
}

bool applies(Only only, const model::ModelDescription& d) {
  return only == Only::always || (only == Only::gated) == d.gated;
}

/// A name with "@" for the number of an expert.
std::string with_expert_mark(std::string_view name) {
  constexpr std::string_view before = ".experts.";
  std::string marked(name);
  if (const auto at = marked.find(before); at != std::string::npos) {
    const auto first = at + before.size();
    const auto end = marked.find_first_not_of("0123456789", first);
    if (end != std::string::npos && end > first) {
      marked.replace(first, end - first, "@");
    }
  }
  return marked;
}

/// The names of all experts' tensors in the layer that the match names.
std::vector<std::string> names_of_experts(
    const model::ModelDescription& d,
    const std::string& name,
    const PatternMatch& match) {
  std::int64_t layer = 0;
  std::from_chars(
      match.number.data(),
      match.number.data() + match.number.size(),
      layer);
  const auto at = name.find('@');
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < experts_in_layer(d, layer); ++i) {
    names.push_back(name);
    names.back().replace(at, 1, std::to_string(i));
  }
  return names;
}

bool is_theirs(
    const FamilyNames& names,
    const model::ModelDescription& d,
    std::string_view name) {
  const auto has = [&](const NamePart& part, const NameRule& rule) {
    return applies(rule.only, d) &&
        // The head of a tied model is a second name of the embedding.
        (rule.ours != "head.weight" || !d.tied_head) &&
        std::ranges::any_of(rule.theirs, [&](std::string_view theirs) {
             return !theirs.empty() &&
                 match_pattern(
                     whole_pattern(part.theirs, theirs),
                     rule.change == Change::stack_experts
                         ? with_expert_mark(name)
                         : std::string(name))
                     .has_value();
           });
  };
  return std::ranges::any_of(names.parts, [&](const NamePart& part) {
    return std::ranges::any_of(part.rules, [&](const NameRule& rule) {
      return has(part, rule);
    });
  });
}

bool is_ignored(const FamilyNames& names, std::string_view name) {
  return std::ranges::any_of(names.ignored, [&](std::string_view pattern) {
    return match_pattern(pattern, name).has_value();
  });
}

/// Replaces "gamma" and "beta" of norms, in files of TensorFlow descent.
std::string modern(std::string name) {
  if (name.ends_with(".gamma")) {
    name.replace(name.size() - 5, 5, "weight");
  } else if (name.ends_with(".beta")) {
    name.replace(name.size() - 4, 4, "bias");
  }
  return name;
}

} // namespace

const FamilyNames& family_names(const model::ModelDescription& d) {
  switch (d.family) {
    case model::ModelFamily::gpt2:
      return d.position == model::PositionKind::rotary ? neox : gpt2;
    case model::ModelFamily::llama:
      return llama;
    case model::ModelFamily::bert:
      return d.norm_place == model::NormPlace::before ? megatron_bert : bert;
    case model::ModelFamily::roberta:
      return roberta;
    case model::ModelFamily::t5:
      return t5;
  }
  throw InternalError({.what = "a model family without names"});
}

NamePair name_pair(
    const model::ModelDescription& d,
    const std::string& parameter) {
  for (const NamePart& part : family_names(d).parts) {
    for (const NameRule& rule : part.rules) {
      const auto match =
          match_pattern(whole_pattern(part.ours, rule.ours), parameter);
      if (!match || !applies(rule.only, d)) {
        continue;
      }
      NamePair pair{parameter, rule.change, {}};
      if (rule.change == Change::stack_experts) {
        pair.theirs = names_of_experts(
            d,
            fill_pattern(whole_pattern(part.theirs, rule.theirs[0]), *match),
            *match);
        return pair;
      }
      for (const std::string_view theirs : rule.theirs) {
        if (!theirs.empty()) {
          pair.theirs.push_back(
              fill_pattern(whole_pattern(part.theirs, theirs), *match));
        }
      }
      return pair;
    }
  }
  throw CheckpointError(
      {.what = fmt::format(
           "Hugging Face's {} has no such parameter",
           name_of(d.family)),
       .values = parameter,
       .remedy = "the model differs from what transformers can build: keep it "
                 "in Cairn's or Megatron's format"});
}

std::string rule_name(
    const model::ModelDescription& d,
    const std::string& name) {
  const FamilyNames& names = family_names(d);
  const std::string own = modern(name);
  for (const std::string& candidate : {own, std::string(names.base) + own}) {
    if (is_theirs(names, d, candidate)) {
      return candidate;
    }
  }
  for (const std::string& candidate : {own, std::string(names.base) + own}) {
    if (is_ignored(names, candidate)) {
      return "";
    }
  }
  return name;
}

} // namespace cairn::checkpoints::huggingface
