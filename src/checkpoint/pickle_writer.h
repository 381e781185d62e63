#pragma once

#include <cairn/checkpoint/python_value.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cairn::checkpoints {

/// Elements that tensors are made of.
struct PickledStorage {
  std::size_t number = 0; ///< its name in the pickle
  std::size_t bytes = 0;
  const PythonValue::Node* tensor = nullptr; ///< one that uses it
};

struct Pickled {
  std::string bytes; ///< protocol 2
  std::vector<PickledStorage> storages;
};

/// Loads no tensor. Throws CheckpointError for a value that contains itself.
Pickled write_pickle(const PythonValue& value);

} // namespace cairn::checkpoints
