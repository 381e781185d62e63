#include "models/families.h"
#include "models/masked_head.h"

namespace cairn::models {

// Fills in words that were masked: an embedding, blocks that look both ways,
// and heads.
void add_bert_layers(LayerBuilder& builder, const ModelDescription& d) {
  check_masked_heads(d);
  builder.add_embedding(&Stream::tokens);
  builder.add_stack(
      {.layers = d.layers,
       .role = Role::encoder,
       .drops = {&Stream::mask, &Stream::positions, &Stream::samples}});
  builder.add_masked_heads();
  if (model::has_word_head(d)) {
    builder.add_head();
  }
}

ModelOutput bert_output(
    const ModelDescription& d,
    nn::VocabularyHead head,
    const Stream& stream) {
  ModelOutput output;
  head.split_tokens = false; // every rank computes these heads for all tokens
  if (d.masked_head && stream.labels.defined()) {
    const Asked asked(stream.hidden, stream);
    output.loss = mean_loss(asked.hidden, head, asked.labels, asked.loss_mask);
    output.losses.emplace_back("lm loss", output.loss);
  }
  if (d.masked_head && (!stream.labels.defined() || stream.want_logits)) {
    output.logits = nn::logits(stream.hidden, head);
  }
  if (d.next_sentence_head) {
    add_sentence_output(output, stream.sentences, stream);
  }
  add_balance_loss(output, d, stream.balance_loss);
  return output;
}

} // namespace cairn::models
