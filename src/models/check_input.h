#pragma once

#include <cairn/models/transformer.h>

namespace cairn::models {

/// Throws DataError for ids that are not in the vocabulary and for shapes that
/// do not fit. Values on a GPU are not read, for that would stop it: there
/// libtorch's own checks have to do.
void check_input(const ModelInput& input, const ModelDescription& description);

} // namespace cairn::models
