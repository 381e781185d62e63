#pragma once

#include "checkpoints/pickle/python_node.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace cairn::checkpoints {

/// Gives the value of a persistent id, by which torch.save names storages.
using PersistentId =
    std::function<const PythonValue::Node*(const PythonValue::Node& id)>;

struct Unpickled {
  const PythonValue::Node* root = nullptr;
  std::size_t bytes = 0; ///< size of the pickle; more bytes may follow
};

/// Reads a pickle of protocol 0 to 5 without running anything: only data
/// structures and tensors are rebuilt (python_objects.h). Nodes go to `nodes`.
/// Throws CheckpointError.
Unpickled read_pickle(
    std::span<const std::byte> bytes,
    PythonNodes& nodes,
    const PersistentId& persistent);

} // namespace cairn::checkpoints
