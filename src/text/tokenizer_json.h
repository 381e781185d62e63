#pragma once

#include "text/added_tokens.h"
#include "text/json_document.h"

#include <cairn/text/load_tokenizer.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

/// A tokenizer.json of Hugging Face's library with a byte-level BPE or a
/// WordPiece model. A part of it that is not honoured is refused by its name.
/// "truncation" and "padding" are not part of encoding, as in their Python
/// classes. Which token ends a document and so on is told by
/// tokenizer_config.json or special_tokens_map.json beside it, else by the
/// usual names.
std::shared_ptr<const Tokenizer> load_tokenizer_json(
    const std::filesystem::path& file,
    const TokenizerOptions& options);

/// The parts that both models share.
struct TokenizerJsonFrame {
  std::vector<AddedToken> added;
  std::vector<TokenId> before; ///< around every text
  std::vector<TokenId> after;
  SpecialIds special;
};

/// Reads them, and puts the added tokens into the vocabulary.
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

/// {"token": id, …} of a model.
Vocabulary read_model_vocab(
    const JsonValue& model,
    const std::filesystem::path& file);

/// A component and, where it is a Sequence, what is in it, in order.
std::vector<JsonValue> components(
    const std::optional<JsonValue>& component,
    std::string_view members);

std::string_view type_of(const JsonValue& component);

bool flag(const JsonValue& component, std::string_view name, bool otherwise);

/// Refuses the member unless it is missing, null, false, 0 or empty.
void expect_unused(const JsonValue& component, std::string_view name);

} // namespace cairn::text
