#pragma once

#include <cairn/checkpoints/checkpoint_format.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/model/description.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// Converts checkpoints from any format to any other, one tensor at a time.

namespace cairn::checkpoints {

/// The class of Megatron-DeepSpeed for which DeepSpeed's files are written:
/// GPTModelPipe, or GPTModel, which runs with --no-pipeline-parallel.
enum class MegatronDeepSpeed { pipeline, no_pipeline };

struct ConvertOptions {
  std::filesystem::path input;
  std::optional<CheckpointFormat> from{}; ///< unset: detected
  std::string tag{}; ///< empty: the tag that `latest` names
  std::optional<std::int64_t> iteration{}; ///< Megatron's; unset: the newest
  /// Options for reading Megatron's files; its `iteration` is ignored.
  MegatronReadOptions megatron{};
  /// The model that is expected; another model is an error. Unset: any.
  std::optional<model::ModelFamily> family{};
  bool weights_only = false; ///< leaves optimizer states behind

  /// A folder, or for `torch` also the name of a file.
  std::filesystem::path output;
  CheckpointFormat to = CheckpointFormat::native;
  bool overwrite = false; ///< replaces an existing checkpoint
  /// Type of the written weights. Unset: they stay as they are; of DeepSpeed's
  /// checkpoints the fp32 copies are taken.
  std::optional<at::ScalarType> type{};
  MegatronSplit split{}; ///< for output of Megatron and Megatron-DeepSpeed
  /// Names in Megatron output. Unset: those of Megatron input, else today's.
  std::optional<MegatronNames> megatron_names{};
  MegatronFormat megatron_format = MegatronFormat::torch;
  /// True: optimizer states as Megatron's distributed optimizer has them.
  bool megatron_distributed_optimizer = false;
  std::int64_t vocabulary_multiple = 128;
  /// ZeRO stage of DeepSpeed output. Unset: 2 with an optimizer, else 0.
  std::optional<int> zero_stage{};
  int zero_ranks = 1;
  /// True: DeepSpeed output is a universal checkpoint, which has neither a
  /// stage nor ranks.
  bool universal = false;
  /// Unset: DeepSpeed output has the names of the input.
  std::optional<MegatronDeepSpeed> megatron_deepspeed{};
  /// True: queries, keys and values as Megatron-DeepSpeed had them until
  /// October 2024, head by head.
  bool megatron_deepspeed_grouped = false;
  /// Name of the optimizer in a native checkpoint, where its states leave it
  /// open: "adam", "lamb", … instead of "adamw".
  std::string optimizer{};
  /// Folder with the tokenizer files for Hugging Face output. Empty: the input.
  std::filesystem::path tokenizer{};

  /// Called with the bytes of tensors that were read, and their total. May
  /// throw, which ends the conversion.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

struct ConvertReport {
  CheckpointFormat from = CheckpointFormat::native;
  std::optional<model::ModelDescription> description;
  std::size_t tensors = 0; ///< written ones, those of the optimizer included
  std::uint64_t bytes = 0; ///< bytes of these tensors
  bool optimizer = false;  ///< true when optimizer states were written
  /// Parts of the input that the output cannot hold.
  std::vector<std::string> left_out;
};

/// Converts a checkpoint. Nothing has the output's name until all of it is
/// written; a conversion that fails or is interrupted leaves what was there
/// before. Throws CheckpointError for input that cannot be read, ConfigError
/// for output that cannot be written this way.
ConvertReport convert(const ConvertOptions& options);

} // namespace cairn::checkpoints
