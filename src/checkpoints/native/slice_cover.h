#pragma once

#include "checkpoints/internal/manifest.h"

#include <string>

namespace cairn::checkpoints {

/// The fault if the slices of a tensor are not its elements, each once: the
/// boxes must tile the tensor, and the slices of each box must fill the box.
/// Empty if all is well.
std::string fault_of_cover(const ManifestTensor& tensor);

} // namespace cairn::checkpoints
