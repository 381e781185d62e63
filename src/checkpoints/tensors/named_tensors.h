#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>

// Conversions between files of torch.save and lists of named tensors.

namespace cairn::checkpoints {

/// A tensor that is read from its file when asked for. Throws CheckpointError
/// for a value that is no tensor.
LazyTensor lazy_tensor(const PythonValue& tensor);

/// Tensors of a dict and of the dicts in it, under names like
/// "encoder.layers.0.weight", in the dict's order. Other values are left out.
NamedTensors named_tensors(const PythonValue& dict);

/// The tensor in another type, converted when it is loaded.
LazyTensor as_type(LazyTensor tensor, at::ScalarType type);

/// A flat dict of tensors.
PythonValue dict_of_tensors(const NamedTensors& tensors);

} // namespace cairn::checkpoints
