#pragma once

#include "checkpoints/huggingface/weight_files.h"

#include <cairn/model/description.h>

namespace cairn::checkpoints::huggingface {

/// Phi-3's files have the weights of query, key and value as one tensor, and
/// those of gate and up as one. Gives them the names and shapes that Llama's
/// files have. Throws CheckpointError for a tensor of another shape.
void split_joined_products(Weights& weights, const model::ModelDescription& d);

} // namespace cairn::checkpoints::huggingface
