#pragma once

#include <cairn/models/transformer.h>

namespace cairn::models {

/// Throws DataError for ids that are not in the vocabulary and for shapes that
/// do not fit. Values on a GPU are not read, for that would stop it: there
/// libtorch's own checks have to do.
void check_input(const ModelInput& input, const ModelDescription& description);

/// Throws DataError unless the ids are 64-bit, [batch, sequence], below
/// `limit`.
void check_ids(
    const at::Tensor& ids,
    std::int64_t limit,
    const char* what,
    bool may_be_negative = false);

} // namespace cairn::models
