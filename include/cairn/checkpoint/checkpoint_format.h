#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace cairn::checkpoints {

/// Whose files.
enum class CheckpointFormat {
  native,
  deepspeed,
  megatron,
  huggingface,
  torch,      ///< a file of torch.save
  safetensors ///< a file without anything beside it
};

/// "native", "deepspeed", … and back.
std::string_view name_of(CheckpointFormat format);
std::optional<CheckpointFormat> checkpoint_format_from(std::string_view name);

/// Whose a file or folder is: a run's folder with many checkpoints, or one
/// checkpoint's. Throws CheckpointError, with what was looked for, where that
/// is nobody's or may be several's.
CheckpointFormat detect_checkpoint_format(const std::filesystem::path& input);

} // namespace cairn::checkpoints
