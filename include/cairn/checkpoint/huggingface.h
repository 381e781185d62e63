#pragma once

#include <cairn/checkpoint/lazy_tensor.h>
#include <cairn/checkpoint/model_description.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

// Folders of Hugging Face's transformers: config.json and the weights of GPT-2,
// Llama, BERT (also Megatron's), RoBERTa or T5.

namespace cairn::checkpoints {

struct HuggingFaceModel {
  ModelDescription description;
  NamedTensors tensors; ///< under Cairn's names; see model_parameters.h
};

/// Reads model.safetensors or pytorch_model.bin, in one file or many. A folder
/// without a model, tensors that are missing, unknown or of another shape than
/// config.json says are a CheckpointError.
HuggingFaceModel read_huggingface(const std::filesystem::path& folder);

struct HuggingFaceOptions {
  std::optional<at::ScalarType> type; ///< else as the tensors are
  /// Weights beyond that go into several files.
  std::uint64_t largest_file = 5'000'000'000;
  /// A folder whose tokenizer files are copied along.
  std::filesystem::path tokenizer;
};

/// Writes a folder that `AutoModel.from_pretrained` loads. It must not hold
/// weights already. Tensors are loaded one at a time.
void write_huggingface(
    const std::filesystem::path& folder,
    const ModelDescription& description,
    const NamedTensors& tensors,
    const HuggingFaceOptions& options = {});

/// What config.json says; of any version of transformers. Which heads a BERT
/// has, only its weights tell.
ModelDescription model_description_from_huggingface(
    std::string_view config,
    const std::string& where);

std::string huggingface_config(
    const ModelDescription& description,
    at::ScalarType type);

} // namespace cairn::checkpoints
