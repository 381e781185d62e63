#pragma once

#include "same_tensors.h"

#include <cairn/checkpoints/huggingface.h>

#include <filesystem>
#include <map>
#include <string>

namespace cairn::checkpoints {

inline std::filesystem::path golden_path(const std::string& name) {
  return std::filesystem::path(CAIRN_GOLDEN_DIR) / name;
}

inline std::filesystem::path rank_file(
    const std::filesystem::path& folder,
    const std::string& rank) {
  return folder / rank / "model_optim_rng.pt";
}

inline const std::map<std::string, at::Tensor>& golden_gpt2() {
  static const std::map<std::string, at::Tensor> tensors =
      loaded(read_huggingface(golden_path("models/gpt2")).tensors);
  return tensors;
}

inline model::ModelDescription small_gpt() {
  return {
      .layers = 4,
      .hidden = 16,
      .heads = 4,
      .key_value_heads = 4,
      .head_size = 4,
      .ffn = 64,
      .vocabulary = 100,
      .padded_vocabulary = 128,
      .positions = 32,
      .activation = model::ActivationKind::gelu_tanh};
}

} // namespace cairn::checkpoints
