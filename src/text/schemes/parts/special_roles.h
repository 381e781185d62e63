#pragma once

#include "text/schemes/parts/vocabulary.h"

#include <cairn/text/tokenizer.h>

#include <filesystem>

namespace cairn::text {

/// The tokens for each role, from tokenizer_config.json or
/// special_tokens_map.json in the folder; where these say nothing, by the usual
/// names. As in Megatron-LM, a missing end is the separator and a missing
/// separator the end, likewise for [CLS] and the beginning; the end is also the
/// end of a document.
SpecialIds read_special_roles(
    const std::filesystem::path& folder,
    const Vocabulary& vocabulary);

} // namespace cairn::text
