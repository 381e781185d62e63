#pragma once

#include <cairn/base/file.h>
#include <cairn/models/load_model.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <string>

// The golden data of tests/golden/generation, and their model.

namespace cairn::generate {

inline nlohmann::json golden_generation(const std::string& name) {
  return nlohmann::json::parse(read_file(
      std::filesystem::path(CAIRN_GOLDEN_DIR) / "generation" / name,
      1 << 20));
}

inline std::shared_ptr<models::Transformer> golden_model(
    const std::string& name = "gpt2",
    const models::ModelOptions& options = {}) {
  return models::load_model(
      std::filesystem::path(CAIRN_GOLDEN_DIR) / "models" / name,
      options);
}

} // namespace cairn::generate
