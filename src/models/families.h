#pragma once

#include <cairn/models/transformer.h>

#include <memory>

namespace cairn::models {

/// GPT and Llama.
std::shared_ptr<Transformer> make_causal_model(
    const ModelDescription& description,
    const ModelOptions& options);

/// BERT and RoBERTa.
std::shared_ptr<Transformer> make_masked_model(
    const ModelDescription& description,
    const ModelOptions& options);

/// T5.
std::shared_ptr<Transformer> make_encoder_decoder(
    const ModelDescription& description,
    const ModelOptions& options);

} // namespace cairn::models
