#pragma once

#include <cairn/text/tokenizer.h>

#include <memory>

namespace cairn::text {

/// Loads vocab.json and merges.txt. If the vocabulary lacks <|endoftext|>, the
/// token is added after it, as in Hugging Face's class.
std::shared_ptr<const Tokenizer> load_gpt2_tokenizer(
    const TokenizerOptions& options);

/// Loads vocab.json and merges.txt with RoBERTa's special tokens, which the
/// vocabulary must have: <s> 0, <pad> 1, </s> 2, <unk> 3 and <mask>, 50264 in
/// roberta-base.
std::shared_ptr<const Tokenizer> load_roberta_tokenizer(
    const TokenizerOptions& options);

} // namespace cairn::text
