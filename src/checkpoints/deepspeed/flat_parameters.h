#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/python_value.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Flat tensors of ZeRO, each a group of parameters that is cut over the ranks.

namespace cairn::checkpoints::deepspeed {

using Shape = std::vector<std::int64_t>;
using ShapeGroups = std::vector<std::vector<std::pair<std::string, Shape>>>;
/// Sizes by rank and group.
using FlatSizes = std::vector<std::vector<std::int64_t>>;
using FlatTensors = std::vector<std::vector<PythonValue>>;

struct FlatPiece {
  std::size_t rank = 0;
  std::size_t group = 0;
  std::int64_t offset = 0; ///< in the rank's part of the group
  std::int64_t count = 0;
};

struct FlatParameter {
  std::string name;
  Shape shape;
  std::vector<FlatPiece> pieces; ///< its elements in order
};

/// Number of elements. Throws CheckpointError for an impossible shape.
std::int64_t elements_of(const Shape& shape);

/// Plan of stages 1 and 2: the ranks' parts one after the other are the
/// parameters one after the other. `files`, one for each rank, are named in
/// errors.
std::vector<FlatParameter> cut_by_group(
    const ShapeGroups& groups,
    const FlatSizes& sizes,
    std::span<const std::filesystem::path> files);

/// Plan of stage 3: every parameter is cut over the ranks by itself.
std::vector<FlatParameter> cut_by_parameter(
    const ShapeGroups& groups,
    const FlatSizes& sizes,
    std::span<const std::filesystem::path> files);

/// A parameter put together from its pieces. Throws CheckpointError if the
/// tensors cannot have them.
LazyTensor joined(
    const FlatParameter& parameter,
    const std::shared_ptr<const FlatTensors>& tensors,
    std::span<const std::filesystem::path> files);

} // namespace cairn::checkpoints::deepspeed
