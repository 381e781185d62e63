#pragma once

#include <cairn/models/transformer.h>

namespace cairn::models {

/// Whether positions count what is no padding, which has a row of its own
/// before the first position's: RoBERTa's do.
bool counts_text(const ModelDescription& description);

/// These positions, [batch, sequence]; -1 for padding.
at::Tensor text_positions(
    const at::Tensor& tokens,
    const ModelDescription& description);

} // namespace cairn::models
