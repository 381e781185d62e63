#include "checkpoint/huggingface/names.h"

#include "checkpoint/name_pattern.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::checkpoints::huggingface {

namespace {

// clang-format off
constexpr NameRule gpt2_rules[] = {
  {"embedding.word.weight", Change::none, {"transformer.wte.weight"}},
  {"embedding.position.weight", Change::none, {"transformer.wpe.weight"}},
  {"layers.#.input_norm.*", Change::none, {"transformer.h.#.ln_1.*"}},
  {"layers.#.attention.query_key_value.*", Change::reorder_columns, {"transformer.h.#.attn.c_attn.*"}},
  {"layers.#.attention.dense.*", Change::transpose, {"transformer.h.#.attn.c_proj.*"}},
  {"layers.#.post_attention_norm.*", Change::none, {"transformer.h.#.ln_2.*"}},
  {"layers.#.mlp.up.*", Change::transpose, {"transformer.h.#.mlp.c_fc.*"}, Only::ungated},
  {"layers.#.mlp.down.*", Change::transpose, {"transformer.h.#.mlp.c_proj.*"}, Only::ungated},
  {"final_norm.*", Change::none, {"transformer.ln_f.*"}},
  {"head.weight", Change::none, {"lm_head.weight"}},
};
constexpr std::string_view gpt2_ignored[] = {"transformer.h.#.attn.bias", "transformer.h.#.attn.masked_bias", "lm_head.weight"};
constexpr FamilyNames gpt2{"transformer.", gpt2_rules, gpt2_ignored};

constexpr NameRule llama_rules[] = {
  {"embedding.word.weight", Change::none, {"model.embed_tokens.weight"}},
  {"layers.#.input_norm.*", Change::none, {"model.layers.#.input_layernorm.*"}},
  {"layers.#.attention.query_key_value.*", Change::join_heads,
   {"model.layers.#.self_attn.q_proj.*", "model.layers.#.self_attn.k_proj.*", "model.layers.#.self_attn.v_proj.*"}},
  {"layers.#.attention.dense.*", Change::none, {"model.layers.#.self_attn.o_proj.*"}},
  {"layers.#.post_attention_norm.*", Change::none, {"model.layers.#.post_attention_layernorm.*"}},
  {"layers.#.mlp.gate.*", Change::none, {"model.layers.#.mlp.gate_proj.*"}},
  {"layers.#.mlp.up.*", Change::none, {"model.layers.#.mlp.up_proj.*"}, Only::gated},
  {"layers.#.mlp.down.*", Change::none, {"model.layers.#.mlp.down_proj.*"}, Only::gated},
  {"final_norm.*", Change::none, {"model.norm.*"}},
  {"head.weight", Change::none, {"lm_head.weight"}},
};
constexpr std::string_view llama_ignored[] = {"model.layers.#.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq", "lm_head.weight"};
constexpr FamilyNames llama{"model.", llama_rules, llama_ignored};

constexpr NameRule bert_rules[] = {
  {"embedding.word.weight", Change::none, {"bert.embeddings.word_embeddings.weight"}},
  {"embedding.position.weight", Change::none, {"bert.embeddings.position_embeddings.weight"}},
  {"embedding.token_type.weight", Change::none, {"bert.embeddings.token_type_embeddings.weight"}},
  {"embedding.norm.*", Change::none, {"bert.embeddings.LayerNorm.*"}},
  {"layers.#.attention.query_key_value.*", Change::join_heads,
   {"bert.encoder.layer.#.attention.self.query.*", "bert.encoder.layer.#.attention.self.key.*", "bert.encoder.layer.#.attention.self.value.*"}},
  {"layers.#.attention.dense.*", Change::none, {"bert.encoder.layer.#.attention.output.dense.*"}},
  {"layers.#.attention_norm.*", Change::none, {"bert.encoder.layer.#.attention.output.LayerNorm.*"}},
  {"layers.#.mlp.up.*", Change::none, {"bert.encoder.layer.#.intermediate.dense.*"}, Only::ungated},
  {"layers.#.mlp.down.*", Change::none, {"bert.encoder.layer.#.output.dense.*"}, Only::ungated},
  {"layers.#.output_norm.*", Change::none, {"bert.encoder.layer.#.output.LayerNorm.*"}},
  {"pooler.*", Change::none, {"bert.pooler.dense.*"}},
  {"mlm.dense.*", Change::none, {"cls.predictions.transform.dense.*"}},
  {"mlm.norm.*", Change::none, {"cls.predictions.transform.LayerNorm.*"}},
  {"mlm.bias", Change::none, {"cls.predictions.bias"}},
  {"next_sentence.*", Change::none, {"cls.seq_relationship.*"}},
  {"head.weight", Change::none, {"cls.predictions.decoder.weight"}},
};
constexpr std::string_view bert_ignored[] = {"bert.embeddings.position_ids", "bert.embeddings.token_type_ids", "cls.predictions.decoder.*"};
constexpr FamilyNames bert{"bert.", bert_rules, bert_ignored};

// Megatron's BERT, whose norms stand before attention and MLP.
constexpr NameRule megatron_bert_rules[] = {
  {"embedding.word.weight", Change::none, {"bert.embeddings.word_embeddings.weight"}},
  {"embedding.position.weight", Change::none, {"bert.embeddings.position_embeddings.weight"}},
  {"embedding.token_type.weight", Change::none, {"bert.embeddings.token_type_embeddings.weight"}},
  {"layers.#.input_norm.*", Change::none, {"bert.encoder.layer.#.attention.ln.*"}},
  {"layers.#.attention.query_key_value.*", Change::join_heads,
   {"bert.encoder.layer.#.attention.self.query.*", "bert.encoder.layer.#.attention.self.key.*", "bert.encoder.layer.#.attention.self.value.*"}},
  {"layers.#.attention.dense.*", Change::none, {"bert.encoder.layer.#.attention.output.dense.*"}},
  {"layers.#.post_attention_norm.*", Change::none, {"bert.encoder.layer.#.ln.*"}},
  {"layers.#.mlp.up.*", Change::none, {"bert.encoder.layer.#.intermediate.dense.*"}, Only::ungated},
  {"layers.#.mlp.down.*", Change::none, {"bert.encoder.layer.#.output.dense.*"}, Only::ungated},
  {"final_norm.*", Change::none, {"bert.encoder.ln.*"}},
  {"pooler.*", Change::none, {"bert.pooler.dense.*"}},
  {"mlm.dense.*", Change::none, {"cls.predictions.transform.dense.*"}},
  {"mlm.norm.*", Change::none, {"cls.predictions.transform.LayerNorm.*"}},
  {"mlm.bias", Change::none, {"cls.predictions.bias"}},
  {"next_sentence.*", Change::none, {"cls.seq_relationship.*"}},
  {"head.weight", Change::none, {"cls.predictions.decoder.weight"}},
};
constexpr std::string_view megatron_bert_ignored[] = {"bert.embeddings.position_ids", "cls.predictions.decoder.*"};
constexpr FamilyNames megatron_bert{"bert.", megatron_bert_rules, megatron_bert_ignored};

constexpr NameRule roberta_rules[] = {
  {"embedding.word.weight", Change::none, {"roberta.embeddings.word_embeddings.weight"}},
  {"embedding.position.weight", Change::none, {"roberta.embeddings.position_embeddings.weight"}},
  {"embedding.token_type.weight", Change::none, {"roberta.embeddings.token_type_embeddings.weight"}},
  {"embedding.norm.*", Change::none, {"roberta.embeddings.LayerNorm.*"}},
  {"layers.#.attention.query_key_value.*", Change::join_heads,
   {"roberta.encoder.layer.#.attention.self.query.*", "roberta.encoder.layer.#.attention.self.key.*", "roberta.encoder.layer.#.attention.self.value.*"}},
  {"layers.#.attention.dense.*", Change::none, {"roberta.encoder.layer.#.attention.output.dense.*"}},
  {"layers.#.attention_norm.*", Change::none, {"roberta.encoder.layer.#.attention.output.LayerNorm.*"}},
  {"layers.#.mlp.up.*", Change::none, {"roberta.encoder.layer.#.intermediate.dense.*"}, Only::ungated},
  {"layers.#.mlp.down.*", Change::none, {"roberta.encoder.layer.#.output.dense.*"}, Only::ungated},
  {"layers.#.output_norm.*", Change::none, {"roberta.encoder.layer.#.output.LayerNorm.*"}},
  {"pooler.*", Change::none, {"roberta.pooler.dense.*"}},
  {"mlm.dense.*", Change::none, {"lm_head.dense.*"}},
  {"mlm.norm.*", Change::none, {"lm_head.layer_norm.*"}},
  {"mlm.bias", Change::none, {"lm_head.bias"}},
  {"head.weight", Change::none, {"lm_head.decoder.weight"}},
};
constexpr std::string_view roberta_ignored[] = {"roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids", "lm_head.decoder.*"};
constexpr FamilyNames roberta{"roberta.", roberta_rules, roberta_ignored};

constexpr NameRule t5_rules[] = {
  {"embedding.word.weight", Change::none, {"shared.weight"}},
  {"encoder.relative_bias.weight", Change::none, {"encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"}},
  {"encoder.layers.#.input_norm.*", Change::none, {"encoder.block.#.layer.0.layer_norm.*"}},
  {"encoder.layers.#.attention.query_key_value.*", Change::join_heads,
   {"encoder.block.#.layer.0.SelfAttention.q.*", "encoder.block.#.layer.0.SelfAttention.k.*", "encoder.block.#.layer.0.SelfAttention.v.*"}},
  {"encoder.layers.#.attention.dense.*", Change::none, {"encoder.block.#.layer.0.SelfAttention.o.*"}},
  {"encoder.layers.#.post_attention_norm.*", Change::none, {"encoder.block.#.layer.1.layer_norm.*"}},
  {"encoder.layers.#.mlp.gate.*", Change::none, {"encoder.block.#.layer.1.DenseReluDense.wi_0.*"}},
  {"encoder.layers.#.mlp.up.*", Change::none, {"encoder.block.#.layer.1.DenseReluDense.wi_1.*"}, Only::gated},
  {"encoder.layers.#.mlp.up.*", Change::none, {"encoder.block.#.layer.1.DenseReluDense.wi.*"}, Only::ungated},
  {"encoder.layers.#.mlp.down.*", Change::none, {"encoder.block.#.layer.1.DenseReluDense.wo.*"}},
  {"encoder.final_norm.*", Change::none, {"encoder.final_layer_norm.*"}},
  {"decoder.relative_bias.weight", Change::none, {"decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"}},
  {"decoder.layers.#.input_norm.*", Change::none, {"decoder.block.#.layer.0.layer_norm.*"}},
  {"decoder.layers.#.attention.query_key_value.*", Change::join_heads,
   {"decoder.block.#.layer.0.SelfAttention.q.*", "decoder.block.#.layer.0.SelfAttention.k.*", "decoder.block.#.layer.0.SelfAttention.v.*"}},
  {"decoder.layers.#.attention.dense.*", Change::none, {"decoder.block.#.layer.0.SelfAttention.o.*"}},
  {"decoder.layers.#.post_attention_norm.*", Change::none, {"decoder.block.#.layer.1.layer_norm.*"}},
  {"decoder.layers.#.cross_attention.query.*", Change::none, {"decoder.block.#.layer.1.EncDecAttention.q.*"}},
  {"decoder.layers.#.cross_attention.key_value.*", Change::join_heads,
   {"decoder.block.#.layer.1.EncDecAttention.k.*", "decoder.block.#.layer.1.EncDecAttention.v.*"}},
  {"decoder.layers.#.cross_attention.dense.*", Change::none, {"decoder.block.#.layer.1.EncDecAttention.o.*"}},
  {"decoder.layers.#.post_cross_attention_norm.*", Change::none, {"decoder.block.#.layer.2.layer_norm.*"}},
  {"decoder.layers.#.mlp.gate.*", Change::none, {"decoder.block.#.layer.2.DenseReluDense.wi_0.*"}},
  {"decoder.layers.#.mlp.up.*", Change::none, {"decoder.block.#.layer.2.DenseReluDense.wi_1.*"}, Only::gated},
  {"decoder.layers.#.mlp.up.*", Change::none, {"decoder.block.#.layer.2.DenseReluDense.wi.*"}, Only::ungated},
  {"decoder.layers.#.mlp.down.*", Change::none, {"decoder.block.#.layer.2.DenseReluDense.wo.*"}},
  {"decoder.final_norm.*", Change::none, {"decoder.final_layer_norm.*"}},
  {"head.weight", Change::none, {"lm_head.weight"}},
};
// Google's first files have a relative bias of the cross attention, which is not
// used.
constexpr std::string_view t5_ignored[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight",
              "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
constexpr FamilyNames t5{"", t5_rules, t5_ignored};
// clang-format on

bool applies(Only only, const ModelDescription& d) {
  return only == Only::always || (only == Only::gated) == d.gated;
}

bool is_theirs(
    const FamilyNames& names,
    const ModelDescription& d,
    std::string_view name) {
  return std::ranges::any_of(names.rules, [&](const NameRule& rule) {
    return applies(rule.only, d) &&
        // The head of a tied model is a second name of the embedding.
        (rule.ours != "head.weight" || !d.tied_head) &&
        std::ranges::any_of(rule.theirs, [&](std::string_view theirs) {
             return !theirs.empty() && match_pattern(theirs, name).has_value();
           });
  });
}

bool is_ignored(const FamilyNames& names, std::string_view name) {
  return std::ranges::any_of(names.ignored, [&](std::string_view pattern) {
    return match_pattern(pattern, name).has_value();
  });
}

/// "gamma" and "beta" of norms in files of TensorFlow descent.
std::string modern(std::string name) {
  if (name.ends_with(".gamma")) {
    name.replace(name.size() - 5, 5, "weight");
  } else if (name.ends_with(".beta")) {
    name.replace(name.size() - 4, 4, "bias");
  }
  return name;
}

} // namespace

const FamilyNames& family_names(const ModelDescription& d) {
  switch (d.family) {
    case ModelFamily::gpt2:
      return gpt2;
    case ModelFamily::llama:
      return llama;
    case ModelFamily::bert:
      return d.norm_place == NormPlace::before ? megatron_bert : bert;
    case ModelFamily::roberta:
      return roberta;
    case ModelFamily::t5:
      return t5;
  }
  throw InternalError({.what = "a model family without names"});
}

NamePair name_pair(const ModelDescription& d, const std::string& parameter) {
  for (const NameRule& rule : family_names(d).rules) {
    const auto match = match_pattern(rule.ours, parameter);
    if (!match || !applies(rule.only, d)) {
      continue;
    }
    NamePair pair{parameter, rule.change, {}};
    for (const std::string_view theirs : rule.theirs) {
      if (!theirs.empty()) {
        pair.theirs.push_back(fill_pattern(theirs, *match));
      }
    }
    return pair;
  }
  throw CheckpointError(
      {.what = fmt::format(
           "Hugging Face's {} has no such parameter",
           name_of(d.family)),
       .values = parameter,
       .remedy = "the model differs from what transformers can build: keep it "
                 "in Cairn's or Megatron's format"});
}

std::string rule_name(const ModelDescription& d, const std::string& name) {
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
