#pragma once

#include "text/vocabulary.h"

#include <cairn/text/tokenizer.h>

#include <filesystem>

namespace cairn::text {

/// Which tokens have which role, from tokenizer_config.json or
/// special_tokens_map.json in the folder; where they say nothing, by the usual
/// names. As in Megatron-LM the separator stands in for a missing end and the
/// other way round, and so do [CLS] and the beginning; the end is the end of a
/// document.
SpecialIds read_special_roles(
    const std::filesystem::path& folder,
    const Vocabulary& vocabulary);

} // namespace cairn::text
