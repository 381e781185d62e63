#pragma once

#include <cairn/text/load_tokenizer.h>

#include <memory>

namespace cairn::text {

/// A model of the SentencePiece library, unigram or BPE. As in Megatron-LM a
/// text gets no <s> or </s> around it, and one written in a text is text.
std::shared_ptr<const Tokenizer> load_sentencepiece_tokenizer(
    const TokenizerOptions& options);

} // namespace cairn::text
