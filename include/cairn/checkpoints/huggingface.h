#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

// Folders of Hugging Face's transformers: config.json and the weights of GPT-2,
// Llama, BERT (also Megatron's), RoBERTa or T5.

namespace cairn::checkpoints {

struct HuggingFaceModel {
  model::ModelDescription description;
  NamedTensors tensors; ///< under Cairn's names; see model/parameters.h
};

/// Reads model.safetensors or pytorch_model.bin, in one file or many. A folder
/// without a model, and tensors that are missing, unknown or of another shape
/// than config.json says, are a CheckpointError.
HuggingFaceModel read_huggingface(const std::filesystem::path& folder);

struct HuggingFaceOptions {
  std::optional<at::ScalarType> type; ///< unset: as the tensors are
  /// Size of a file. Larger weights go into several files.
  std::uint64_t largest_file = 5'000'000'000;
  /// A folder whose tokenizer files are copied as well.
  std::filesystem::path tokenizer;
};

/// Writes a folder that `AutoModel.from_pretrained` loads. The folder must not
/// hold weights already. Tensors are loaded one at a time.
void write_huggingface(
    const std::filesystem::path& folder,
    const model::ModelDescription& description,
    const NamedTensors& tensors,
    const HuggingFaceOptions& options = {});

/// The model that a config.json of any version of transformers describes. The
/// heads of a BERT are not in it: only the weights tell which there are.
model::ModelDescription model_description_from_huggingface(
    std::string_view config,
    const std::string& where);

/// The text of config.json for a model.
std::string huggingface_config(
    const model::ModelDescription& description,
    at::ScalarType type);

} // namespace cairn::checkpoints
