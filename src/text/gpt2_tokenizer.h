#pragma once

#include <cairn/text/load_tokenizer.h>

#include <memory>

namespace cairn::text {

/// vocab.json and merges.txt, with <|endoftext|>, which is put after the
/// vocabulary when it lacks it, as Hugging Face's class does.
std::shared_ptr<const Tokenizer> load_gpt2_tokenizer(
    const TokenizerOptions& options);

/// The same with RoBERTa's special tokens, which the vocabulary must have:
/// <s> 0, <pad> 1, </s> 2, <unk> 3 and <mask>, 50264 in roberta-base.
std::shared_ptr<const Tokenizer> load_roberta_tokenizer(
    const TokenizerOptions& options);

} // namespace cairn::text
