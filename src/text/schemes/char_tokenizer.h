#pragma once

#include <cairn/text/tokenizer.h>

#include <memory>

namespace cairn::text {

/// Loads a tokenizer with one id per character. The vocabulary file is a saved
/// CharVocabulary if its name ends in .json, else a text whose characters make
/// the vocabulary.
std::shared_ptr<const Tokenizer> load_char_tokenizer(
    const TokenizerOptions& options);

} // namespace cairn::text
