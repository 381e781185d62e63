#pragma once

#include "text/files/json_document.h"
#include "text/schemes/parts/added_tokens.h"

#include <cairn/text/tokenizer.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

/// Loads a tokenizer.json of Hugging Face's library with a byte-level BPE or a
/// WordPiece model. Refuses, by name, any part that is not honoured.
/// "truncation" and "padding" are ignored, as they are no part of encoding in
/// Hugging Face's Python classes either. The roles of tokens (end of document
/// and so on) come from tokenizer_config.json or special_tokens_map.json beside
/// the file, else from the usual names.
std::shared_ptr<const Tokenizer> load_tokenizer_json(
    const std::filesystem::path& file,
    const TokenizerOptions& options);

/// The parts of tokenizer.json that both models share.
struct TokenizerJsonFrame {
  std::vector<AddedToken> added;
  std::vector<TokenId> before; ///< ids put before every text
  std::vector<TokenId> after;
  SpecialIds special;
};

/// Reads the shared parts and puts the added tokens into the vocabulary.
TokenizerJsonFrame read_frame(
    const JsonValue& root,
    const std::filesystem::path& file,
    const TokenizerOptions& options,
    Vocabulary& vocabulary);

std::shared_ptr<const Tokenizer> read_bpe_json(
    const JsonValue& root,
    const std::filesystem::path& file,
    const TokenizerOptions& options);

std::shared_ptr<const Tokenizer> read_wordpiece_json(
    const JsonValue& root,
    const std::filesystem::path& file,
    const TokenizerOptions& options);

/// Reads the {"token": id, …} of a model.
Vocabulary read_model_vocab(
    const JsonValue& model,
    const std::filesystem::path& file);

/// The component itself, or, if it is a Sequence, its members in order.
std::vector<JsonValue> components(
    const std::optional<JsonValue>& component,
    std::string_view members);

std::string_view type_of(const JsonValue& component);

bool flag(const JsonValue& component, std::string_view name, bool otherwise);

/// Throws unless the member is missing, null, false, 0 or empty.
void expect_unused(const JsonValue& component, std::string_view name);

} // namespace cairn::text
