#pragma once

#include <cairn/checkpoints/checkpoint_format.h>
#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/models/transformer.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

namespace cairn::models {

/// A checkpoint's model before it is made: its description, and its weights,
/// which are read when they are needed.
struct StoredModel {
  checkpoints::CheckpointFormat format;
  ModelDescription description;
  checkpoints::NamedTensors tensors;
};

/// Opens a checkpoint in any format that Cairn reads and that describes its
/// model: Hugging Face's, Megatron's, or one of `cairn pretrain` and `cairn
/// convert`. `step`: another one than the newest. `megatron`: how to read its
/// files; the iteration in it is ignored. Throws CheckpointError.
StoredModel open_model(
    const std::filesystem::path& checkpoint,
    std::optional<std::int64_t> step = std::nullopt,
    const checkpoints::MegatronReadOptions& megatron = {});

/// Makes the model and loads its weights.
std::shared_ptr<Transformer> load_model(
    const StoredModel& stored,
    ModelOptions options = {});
std::shared_ptr<Transformer> load_model(
    const std::filesystem::path& checkpoint,
    ModelOptions options = {});

} // namespace cairn::models
