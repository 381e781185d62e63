#pragma once

#include <cairn/text/tokenizer.h>

#include <memory>

namespace cairn::text {

/// Loads a tokenizer for texts that are numbers already: "12 7 9" has the ids
/// 12, 7 and 9.
std::shared_ptr<const Tokenizer> load_null_tokenizer(
    const TokenizerOptions& options);

} // namespace cairn::text
