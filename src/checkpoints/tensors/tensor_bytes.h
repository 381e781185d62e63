#pragma once

#include "checkpoints/pickle/python_node.h"

#include <ATen/core/Tensor.h>

namespace cairn::checkpoints {

/// Throws CheckpointError unless every element lies in the storage.
void check(const TensorBytes& tensor);

/// A copy of the tensor, with the strides that were saved.
at::Tensor load(const TensorBytes& tensor);

/// The tensor in the file's own memory, which nobody may write to; a copy where
/// elements are not aligned as the machine wants them.
at::Tensor borrowed(const TensorBytes& tensor);

/// A copy of the tensor.
at::Tensor load(const MadeTensor& tensor);

} // namespace cairn::checkpoints
