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

/// A checkpoint's model before it is made: what it is, and its weights, which
/// are read when asked for.
struct StoredModel {
  checkpoints::CheckpointFormat format;
  ModelDescription description;
  checkpoints::NamedTensors tensors;
};

/// Of a checkpoint in any format that Cairn reads and that says what its model
/// is: Hugging Face's, Megatron's, or what `cairn pretrain` and `cairn convert`
/// wrote. `step`: another than the newest. `megatron`: how its files are read;
/// the iteration is not looked at. Throws CheckpointError.
StoredModel open_model(
    const std::filesystem::path& checkpoint,
    std::optional<std::int64_t> step = std::nullopt,
    const checkpoints::MegatronReadOptions& megatron = {});

/// The same as a model with its weights.
std::shared_ptr<Transformer> load_model(
    const StoredModel& stored,
    ModelOptions options = {});
std::shared_ptr<Transformer> load_model(
    const std::filesystem::path& checkpoint,
    ModelOptions options = {});

} // namespace cairn::models
