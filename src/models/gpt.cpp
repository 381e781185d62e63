#include "models/families.h"

#include <ATen/ops/arange.h>
#include <cairn/base/error.h>

namespace cairn::models {
namespace {

/// The hidden state of each row's token that the input names.
at::Tensor named_tokens(
    const Stream& stream,
    const nn::VocabularyHead& head,
    const nn::ContextParallel& sequence) {
  if (stream.labels.defined() || head.split_tokens || sequence.is_on()) {
    throw UsageError(
        {.what = "logits of single tokens, where there are labels or ranks "
                 "share the sequence"});
  }
  const at::Tensor rows =
      at::arange(stream.hidden.size(0), stream.logits_at.options());
  return stream.hidden.index({rows, stream.logits_at}).unsqueeze(1);
}

} // namespace

// Predicts the next token: an embedding, blocks that look back, a head.
void add_gpt_layers(LayerBuilder& builder, const ModelDescription& d) {
  builder.add_embedding(&Stream::tokens);
  builder.add_stack(
      {.layers = d.layers,
       .role = Role::decoder,
       .drops = {
           &Stream::mask,
           &Stream::first_seen,
           &Stream::positions,
           &Stream::kept,
           &Stream::samples}});
  builder.add_head();
}

ModelOutput gpt_output(
    const ModelDescription& d,
    const nn::VocabularyHead& head,
    const Stream& stream,
    const nn::ContextParallel& sequence) {
  ModelOutput output;
  add_language_output(
      output,
      stream.logits_at.defined() ? named_tokens(stream, head, sequence)
                                 : stream.hidden,
      head,
      stream,
      sequence);
  add_balance_loss(output, d, stream.balance_loss);
  return output;
}

} // namespace cairn::models
