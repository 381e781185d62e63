#pragma once

#include <cairn/models/transformer.h>
#include <cairn/nn/block.h>
#include <cairn/nn/vocabulary.h>

namespace cairn::models {

/// From what a checkpoint says of a model to what layers are built with.
nn::LayerContext layer_context(const ModelOptions& options);
nn::NormOptions norm_options(const ModelDescription& description);
nn::Activation activation_of(const ModelDescription& description);
nn::VocabularyOptions vocabulary_of(const ModelDescription& description);

enum class Role { encoder, decoder, crossing_decoder };

/// Blocks made of one value share their rotary tables.
nn::BlockOptions block_options(const ModelDescription& description, Role role);

/// Of all blocks to those of one, which may have experts.
nn::BlockOptions block_options(
    const nn::BlockOptions& all,
    const ModelDescription& description,
    std::int64_t layer);

} // namespace cairn::models
