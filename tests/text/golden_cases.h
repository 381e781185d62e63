#pragma once

#include <cairn/text/tokenizer.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace cairn::text::fixtures {

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(CAIRN_GOLDEN_DIR) / "tokenizers" / name;
}

inline nlohmann::json golden_json(const std::string& name) {
  std::ifstream file(golden(name));
  return nlohmann::json::parse(file);
}

inline TokenizerOptions gpt2_options() {
  return {
      .type = "GPT2BPETokenizer",
      .vocab_file = golden("gpt2/vocab.json"),
      .merge_file = golden("gpt2/merges.txt")};
}

/// Options without [CLS] and [SEP] around texts.
inline TokenizerOptions bert_options(const std::string& name) {
  return {
      .type = name == "cased" ? "BertWordPieceCase" : "BertWordPieceLowerCase",
      .vocab_file = golden(
          name == "cased" ? "bert/vocab-cased-small.txt"
                          : "bert/vocab-uncased.txt"),
      .add_special_tokens = false};
}

} // namespace cairn::text::fixtures
