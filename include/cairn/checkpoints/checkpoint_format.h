#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace cairn::checkpoints {

/// The program whose files a checkpoint has.
enum class CheckpointFormat {
  native,
  deepspeed,
  megatron,
  huggingface,
  torch,      ///< a file of torch.save
  dcp,        ///< a folder of torch.distributed.checkpoint, not Megatron's
  safetensors ///< a single file, with nothing beside it
};

/// Name of a format: "native", "deepspeed", …
std::string_view name_of(CheckpointFormat format);
/// The format of that name; nullopt for an unknown name.
std::optional<CheckpointFormat> checkpoint_format_from(std::string_view name);

/// Finds out the format of a file or folder: a run's folder with many
/// checkpoints, or the folder of one. Throws CheckpointError, with the names
/// that it looked for, if the input has no known format or could have several.
CheckpointFormat detect_checkpoint_format(const std::filesystem::path& input);

} // namespace cairn::checkpoints
