#pragma once

#include <cairn/checkpoints/python_value.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// The elements of one or several tensors.
struct PickledStorage {
  std::size_t number = 0; ///< name of the storage in the pickle
  std::size_t bytes = 0;
  const PythonValue::Node* tensor = nullptr; ///< a tensor that uses it
};

struct Pickled {
  std::string bytes; ///< protocol 2
  std::vector<PickledStorage> storages;
};

/// Writes a pickle without loading any tensor. Throws CheckpointError for a
/// value that contains itself.
Pickled write_pickle(const PythonValue& value);

} // namespace cairn::checkpoints
