#pragma once

#include <cairn/model/description.h>

#include <cstdint>
#include <vector>

namespace cairn::generate {

/// Throws DataError for a prompt that is empty, has ids that the model does not
/// know, or leaves no room for a token.
void check_prompt(
    const std::vector<std::int64_t>& prompt,
    const model::ModelDescription& model,
    std::int64_t longest);

} // namespace cairn::generate
