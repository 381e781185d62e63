#pragma once

#include <cairn/checkpoint/python_value.h>

#include <string>
#include <vector>

namespace cairn::checkpoints {

struct Pickled {
  std::string bytes; ///< protocol 2
  /// The storages that it names "0", "1", …: tensors of one dimension.
  std::vector<at::Tensor> storages;
};

/// Throws CheckpointError for a value that contains itself.
Pickled write_pickle(const PythonValue& value);

} // namespace cairn::checkpoints
