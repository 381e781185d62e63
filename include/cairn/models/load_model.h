#pragma once

#include <cairn/models/transformer.h>

#include <filesystem>
#include <memory>

namespace cairn::models {

/// The model of a checkpoint in any format that Cairn reads, with its weights:
/// Hugging Face's, Megatron's, or a native one of `cairn pretrain`. Throws
/// CheckpointError.
std::shared_ptr<Transformer> load_model(
    const std::filesystem::path& checkpoint,
    ModelOptions options = {});

} // namespace cairn::models
