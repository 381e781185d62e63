#pragma once

#include <cairn/models/transformer.h>

namespace cairn::models {

/// True when positions count only tokens that are not padding; padding then has
/// a row of its own before the first position's. RoBERTa counts like that.
bool counts_text(const ModelDescription& description);

/// The positions, [batch, sequence], counted like that; -1 for padding.
at::Tensor text_positions(
    const at::Tensor& tokens,
    const ModelDescription& description);

} // namespace cairn::models
