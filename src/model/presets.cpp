#include <cairn/model/presets.h>

#include <algorithm>

namespace cairn::model {

ModelDescription gpt_description(const ModelSizes& sizes) {
  ModelDescription d;
  d.layers = sizes.layers;
  d.hidden = sizes.hidden;
  d.heads = sizes.heads;
  d.key_value_heads = sizes.heads;
  d.head_size = sizes.heads > 0 ? sizes.hidden / sizes.heads : 0;
  d.ffn = 4 * sizes.hidden;
  d.vocabulary = sizes.vocabulary;
  d.padded_vocabulary = std::max(sizes.padded_vocabulary, sizes.vocabulary);
  d.positions = sizes.sequence;
  d.activation = ActivationKind::gelu_tanh;
  d.dropout = sizes.dropout;
  d.attention_dropout = sizes.dropout;
  return d;
}

ModelDescription llama_description(
    const ModelSizes& sizes,
    std::int64_t key_value_heads,
    std::int64_t ffn) {
  ModelDescription d = gpt_description(sizes);
  d.family = ModelFamily::llama;
  d.key_value_heads = key_value_heads;
  d.ffn = ffn;
  d.position = PositionKind::rotary;
  d.norm = NormKind::rms_norm;
  d.activation = ActivationKind::silu;
  d.gated = true;
  d.attention_bias = false;
  d.mlp_bias = false;
  d.tied_head = false;
  return d;
}

ModelDescription bert_description(const ModelSizes& sizes, BinaryHead head) {
  ModelDescription d = gpt_description(sizes);
  d.family = ModelFamily::bert;
  d.activation = ActivationKind::gelu;
  d.masked_head = true;
  if (head == BinaryHead::with) {
    d.token_types = 2;
    d.pooler = true;
    d.next_sentence_head = true;
  }
  return d;
}

ModelDescription t5_description(const ModelSizes& sizes) {
  ModelDescription d = gpt_description(sizes);
  d.family = ModelFamily::t5;
  d.decoder_layers = sizes.layers;
  d.activation = ActivationKind::gelu;
  d.head_bias = true;
  return d;
}

ModelDescription roberta_small_description() {
  ModelDescription d = gpt_description(
      {.layers = 6,
       .hidden = 256,
       .heads = 8,
       .sequence = 514,
       .vocabulary = 50265,
       .dropout = 0.1});
  d.family = ModelFamily::roberta;
  d.ffn = 512;
  d.activation = ActivationKind::gelu;
  d.norm_place = NormPlace::after;
  d.position_offset = 2;
  d.token_types = 1;
  d.masked_head = true;
  d.begin_token = 0;
  d.pad_token = 1;
  d.end_token = 2;
  return d;
}

ModelDescription gpt_lite_description(std::int64_t vocabulary) {
  ModelDescription d = gpt_description(
      {.sequence = 2048, .vocabulary = vocabulary, .dropout = 0.1});
  d.activation = ActivationKind::relu;
  d.tied_head = false;
  d.head_bias = true;
  return d;
}

std::int64_t gated_ffn(std::int64_t hidden) {
  return hidden * 4 * 2 / 3 / 64 * 64;
}

} // namespace cairn::model
