#include "models/families.h"

#include <ATen/TensorOperators.h>

#include <cmath>

namespace cairn::models {

// Turns one text into another: blocks that look both ways encode the text,
// blocks that look back and at the encoded text make the other.
void add_t5_layers(LayerBuilder& builder, const ModelDescription& d) {
  builder.add_embedding(&Stream::tokens);
  builder.add_stack(
      {.layers = d.layers,
       .role = Role::encoder,
       .name = "encoder",
       .result = &Stream::memory});
  builder.add_embedding(&Stream::decoder_tokens);
  builder.add_stack(
      {.layers = d.decoder_layers,
       .role = Role::crossing_decoder,
       .name = "decoder",
       .drops = {
           &Stream::memory,
           &Stream::mask,
           &Stream::decoder_mask,
           &Stream::samples}});
  builder.add_head();
}

ModelOutput t5_output(
    const ModelDescription& d,
    const nn::VocabularyHead& head,
    const Stream& stream) {
  ModelOutput output;
  add_language_output(
      output,
      d.scaled_output
          ? stream.hidden * (1 / std::sqrt(static_cast<double>(d.hidden)))
          : stream.hidden,
      head,
      stream);
  add_balance_loss(output, d, stream.balance_loss);
  return output;
}

} // namespace cairn::models
