#pragma once

#include <cairn/text/load_tokenizer.h>

#include <memory>

namespace cairn::text {

/// One id per character. The vocabulary file is a saved CharVocabulary when its
/// name ends in .json, and otherwise a text whose characters are taken.
std::shared_ptr<const Tokenizer> load_char_tokenizer(
    const TokenizerOptions& options);

} // namespace cairn::text
