#pragma once

#include <cairn/checkpoint/checkpoint_format.h>
#include <cairn/checkpoint/megatron.h>
#include <cairn/checkpoint/model_description.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// From any format to any other, one tensor at a time.

namespace cairn::checkpoints {

struct ConvertOptions {
  std::filesystem::path input;
  std::optional<CheckpointFormat> from{};  ///< else found out
  std::string tag{};                       ///< else what `latest` names
  std::optional<std::int64_t> iteration{}; ///< Megatron's; else the newest
  /// How Megatron's files are read; `iteration` is not looked at.
  MegatronReadOptions megatron{};
  /// Another model is an error.
  std::optional<ModelFamily> family{};
  bool weights_only = false; ///< leave optimizer states behind

  /// A folder, or for `torch` also the name of a file.
  std::filesystem::path output;
  CheckpointFormat to = CheckpointFormat::native;
  bool overwrite = false; ///< replace a checkpoint that is there
  /// Of the weights; else they stay as they are, of DeepSpeed's the fp32
  /// copies.
  std::optional<at::ScalarType> type{};
  MegatronSplit split{}; ///< Megatron's
  std::int64_t vocabulary_multiple = 128;
  std::optional<int> zero_stage{}; ///< DeepSpeed's; 2 with optimizer, else 0
  int zero_ranks = 1;
  /// The name that a native checkpoint gives the optimizer, where the states
  /// leave it open: "adam", "lamb", … instead of "adamw".
  std::string optimizer{};
  /// A folder whose tokenizer files Hugging Face's gets; else the input.
  std::filesystem::path tokenizer{};

  /// Bytes of tensors that were read, of so many. May throw, which ends the
  /// conversion.
  std::function<void(std::uint64_t done, std::uint64_t total)> progress{};
};

struct ConvertReport {
  CheckpointFormat from = CheckpointFormat::native;
  std::optional<ModelDescription> description;
  std::size_t tensors = 0; ///< with those of the optimizer
  std::uint64_t bytes = 0; ///< of them
  bool optimizer = false;  ///< its states are there
  /// What of the input the output cannot hold.
  std::vector<std::string> left_out;
};

/// Nothing bears the output's name until all of it is written; what fails or
/// is interrupted leaves what was there before. Throws CheckpointError for what
/// cannot be read, ConfigError for what cannot be written so.
ConvertReport convert(const ConvertOptions& options);

} // namespace cairn::checkpoints
