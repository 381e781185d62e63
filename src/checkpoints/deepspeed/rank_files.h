#pragma once

#include "checkpoints/deepspeed/flat_parameters.h"
#include "checkpoints/deepspeed/saved_optimizer.h"
#include "checkpoints/deepspeed/tag_files.h"

#include <cairn/checkpoints/deepspeed.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints::deepspeed {

/// The files of one model-parallel rank, read and checked against each other.
struct RankFiles {
  TagFiles all;
  std::vector<std::filesystem::path> model_files;
  std::vector<PythonValue> models; ///< one for each rank at stage 3, else one
  int stage = 0;
  std::int64_t ranks = 1; ///< number of data-parallel ranks
  /// Dicts of the ranks' optimizers, from stage 1 on.
  std::vector<PythonValue> optimizers{};
  /// The optimizer that those dicts make, from stage 1 on.
  std::shared_ptr<const SavedOptimizer> zero{};
};

RankFiles read_rank_files(const DeepSpeedSource& source);

/// Shapes of the optimizer's parameters, by group.
ShapeGroups shape_groups(const PythonValue& param_shapes);

/// A member of a dict; nullopt also where it is None.
std::optional<PythonValue> member(const PythonValue& dict, const char* key);

} // namespace cairn::checkpoints::deepspeed
