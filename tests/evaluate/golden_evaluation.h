#pragma once

#include "evaluate/model_text.h"

#include <cairn/base/file.h>
#include <cairn/model/description.h>
#include <cairn/text/tokenizer.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <memory>
#include <string>

// The files of tests/golden/evaluation.

namespace cairn::evaluate {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(CAIRN_GOLDEN_DIR) / "evaluation" / name;
}

inline nlohmann::json golden_json(const std::string& name) {
  return nlohmann::json::parse(read_file(golden(name), 1 << 24));
}

/// The tokenizer of the golden model: a byte-level BPE of 600 tokens.
inline std::shared_ptr<const text::Tokenizer> golden_tokenizer() {
  return text::load_tokenizer(
      {.model_file = std::filesystem::path(CAIRN_GOLDEN_DIR) /
           "tokenizers/train/own600-tokenizer.json"});
}

/// Texts for a GPT-2 with that tokenizer.
inline ModelText golden_text() {
  return {golden_tokenizer(), model::ModelDescription{.begin_token = 0}};
}

} // namespace cairn::evaluate
