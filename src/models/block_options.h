#pragma once

#include "models/internal/layer_context.h"

#include <cairn/models/transformer.h>
#include <cairn/nn/block.h>
#include <cairn/nn/vocabulary.h>

namespace cairn::models {

// Functions from a model's description to the options of its layers.

nn::NormOptions norm_options(const ModelDescription& description);
nn::VocabularyOptions vocabulary_of(const ModelDescription& description);

enum class Role { encoder, decoder, crossing_decoder };

/// Blocks made from one BlockOptions share their rotary tables.
nn::BlockOptions block_options(const ModelDescription& description, Role role);

/// Options of block `layer`, derived from the options of all blocks (some
/// blocks have experts).
nn::BlockOptions block_options(
    const nn::BlockOptions& all,
    const ModelDescription& description,
    std::int64_t layer);

} // namespace cairn::models
