#pragma once

#include "checkpoint/python_node.h"

#include <ATen/core/Tensor.h>

namespace cairn::checkpoints {

/// Throws CheckpointError unless every element lies in the storage.
void check(const TensorBytes& tensor);

/// A copy of its own, with the strides that were saved.
at::Tensor load(const TensorBytes& tensor);

/// The same in the file's own memory, which nobody may write to; a copy where
/// elements do not lie as the machine wants them.
at::Tensor borrowed(const TensorBytes& tensor);

/// A copy of its own.
at::Tensor load(const MadeTensor& tensor);

} // namespace cairn::checkpoints
