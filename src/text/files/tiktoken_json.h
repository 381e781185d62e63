#pragma once

#include <cairn/text/tokenizer.h>

#include <memory>

namespace cairn::text {

/// Reads the vocabulary of Megatron's TikTokenizer: a JSON list of
/// {"rank", "token_bytes" in base64, "token_str"}, whose first 256 entries are
/// the bytes. Special tokens have the ids before it. Two neighbours become one
/// token where their bytes together are a token, those of the lowest rank
/// first.
std::shared_ptr<const Tokenizer> load_tiktoken(const TokenizerOptions& options);

} // namespace cairn::text
