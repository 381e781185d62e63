#pragma once

#include <cairn/model/description.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::generate {

/// Throws DataError for a token that the model does not know.
void check_tokens(
    std::span<const std::int64_t> tokens,
    const model::ModelDescription& model);

/// Throws DataError for a prompt that is empty, has ids that the model does not
/// know, or leaves no room for a token.
void check_prompt(
    const std::vector<std::int64_t>& prompt,
    const model::ModelDescription& model,
    std::int64_t longest);

/// Throws DataError for a source that the model cannot read: for a T5 one that
/// is empty, has unknown ids or is longer than its positions; for others any.
void check_source(
    const std::vector<std::int64_t>& source,
    const model::ModelDescription& model);

/// Tokens of the longest text; without limit for relative positions.
std::int64_t positions_of(const model::ModelDescription& model);

} // namespace cairn::generate
