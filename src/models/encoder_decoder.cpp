#include "models/attention_mask.h"
#include "models/check_input.h"
#include "models/families.h"
#include "models/language_head.h"
#include "models/stack.h"

#include <cmath>

namespace cairn::models {
namespace {

/// T5: what an encoder makes of one text, a decoder turns into another.
class EncoderDecoder : public Transformer {
 public:
  EncoderDecoder(const ModelDescription& d, const ModelOptions& options)
      : EncoderDecoder(d, options, layer_context(options)) {}

  ModelOutput forward(const ModelInput& input) override {
    check_input(input, description());
    // Both of the encoder's uses: it sees its own text, the decoder sees it.
    const at::Tensor text = attention_mask(input.mask, false);
    const at::Tensor memory =
        encoder_.forward(embedding_->forward(input.tokens, {}), {.mask = text})
            .hidden;
    at::Tensor x = decoder_
                       .forward(
                           embedding_->forward(input.decoder_tokens, {}),
                           {.mask = attention_mask(input.decoder_mask, true),
                            .memory = memory,
                            .memory_mask = text})
                       .hidden;
    if (description().scaled_output) {
      x = x * (1 / std::sqrt(static_cast<double>(description().hidden)));
    }
    ModelOutput output;
    add_language_output(
        output,
        x,
        head_of(head_, embedding_->word(), own_head_.get()),
        input);
    return output;
  }

 private:
  EncoderDecoder(
      const ModelDescription& d,
      const ModelOptions& options,
      const nn::LayerContext& context)
      : Transformer(d),
        embedding_(register_module(
            "embedding",
            std::make_shared<Embedding>(
                context.in("embedding"),
                d,
                Embedding::Words::own))),
        encoder_(
            *register_module("encoder", std::make_shared<torch::nn::Module>()),
            context.in("encoder"),
            d,
            options,
            {d.layers, Role::encoder}),
        decoder_(
            *register_module("decoder", std::make_shared<torch::nn::Module>()),
            context.in("decoder"),
            d,
            options,
            {d.decoder_layers, Role::crossing_decoder}),
        own_head_(make_language_head(context.in("head"), d)),
        head_(vocabulary_head(context, d)) {
    if (own_head_) {
      register_module("head", own_head_);
    }
  }

  std::shared_ptr<Embedding> embedding_;
  Stack encoder_;
  Stack decoder_;
  std::shared_ptr<LanguageHead> own_head_;
  nn::VocabularyHead head_;
};

} // namespace

std::shared_ptr<Transformer> make_encoder_decoder(
    const ModelDescription& description,
    const ModelOptions& options) {
  return std::make_shared<EncoderDecoder>(description, options);
}

} // namespace cairn::models
