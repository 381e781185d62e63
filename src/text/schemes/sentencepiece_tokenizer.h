#pragma once

#include <cairn/text/tokenizer.h>

#include <memory>

namespace cairn::text {

/// Loads a model of the SentencePiece library, unigram or BPE. As in
/// Megatron-LM, no <s> or </s> is put around a text, and a "<s>" in a text is
/// ordinary text.
std::shared_ptr<const Tokenizer> load_sentencepiece_tokenizer(
    const TokenizerOptions& options);

} // namespace cairn::text
