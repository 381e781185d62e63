#pragma once

#include <cairn/checkpoints/lazy_tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace cairn::checkpoints::huggingface {

struct Weights {
  /// The file that was read, or its index; for messages.
  std::filesystem::path file;
  std::map<std::string, LazyTensor> tensors;
};

/// The weights of a folder, in the order in which transformers looks for them:
/// model.safetensors, its shards, pytorch_model.bin, its shards.
Weights open_weights(const std::filesystem::path& folder);

/// True when the folder holds weights.
bool has_weights(const std::filesystem::path& folder);

} // namespace cairn::checkpoints::huggingface
