#pragma once

#include "checkpoint/native/manifest.h"

#include <string>

namespace cairn::checkpoints {

/// What is wrong with the slices of a tensor, if they are not its elements,
/// each once: the boxes tile it, the slices of each box fill that one. Empty
/// if all is well.
std::string fault_of_cover(const ManifestTensor& tensor);

} // namespace cairn::checkpoints
