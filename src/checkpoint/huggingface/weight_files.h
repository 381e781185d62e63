#pragma once

#include <cairn/checkpoint/lazy_tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace cairn::checkpoints::huggingface {

struct Weights {
  std::filesystem::path file; ///< for messages: what was read, or its index
  std::map<std::string, LazyTensor> tensors;
};

/// The weights of a folder, in the order in which transformers looks for them:
/// model.safetensors, its shards, pytorch_model.bin, its shards.
Weights open_weights(const std::filesystem::path& folder);

/// Whether it holds any.
bool has_weights(const std::filesystem::path& folder);

} // namespace cairn::checkpoints::huggingface
