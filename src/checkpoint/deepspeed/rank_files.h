#pragma once

#include "checkpoint/deepspeed/flat_parameters.h"
#include "checkpoint/deepspeed/saved_optimizer.h"
#include "checkpoint/deepspeed/tag_files.h"

#include <cairn/checkpoint/deepspeed.h>

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
  std::vector<PythonValue> models; ///< at stage 3 one for each rank, else one
  int stage = 0;
  std::int64_t ranks = 1; ///< data-parallel
  /// From stage 1 on: the dicts of the ranks' optimizers, and what they hold.
  std::vector<PythonValue> optimizers{};
  std::shared_ptr<const SavedOptimizer> zero{};
};

RankFiles read_rank_files(const DeepSpeedSource& source);

/// The parameters that an optimizer has, by group.
ShapeGroups shape_groups(const PythonValue& param_shapes);

/// A dict's member; nullopt also where it is None.
std::optional<PythonValue> member(const PythonValue& dict, const char* key);

} // namespace cairn::checkpoints::deepspeed
