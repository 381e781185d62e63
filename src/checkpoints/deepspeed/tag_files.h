#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::checkpoints::deepspeed {

/// The files in the folder of one save.
struct TagFiles {
  std::filesystem::path folder;
  std::string tag;
  /// Model files of stages 0 to 2, by model-parallel rank.
  std::map<int, std::filesystem::path> models;
  /// Files by model-parallel and data-parallel rank.
  using ByRanks = std::map<std::pair<int, int>, std::filesystem::path>;
  ByRanks zero_models; ///< model files of stage 3
  ByRanks optimizers;
  /// Files of experts, by model-parallel rank, layer and expert, and those of
  /// their optimizers by model-parallel and expert parallel rank.
  std::map<std::array<int, 3>, std::filesystem::path> experts;
  ByRanks expert_optimizers;
  /// Layer files of pipelines, by tensor-parallel rank and layer.
  ByRanks layers;
};

/// True for a file of one expert.
bool is_expert_file(const std::filesystem::path& path);

/// Files of a tag. Without a tag: of the one that `latest` names, or of the
/// folder itself. Throws CheckpointError for two files of one rank, and for
/// unsupported files.
TagFiles tag_files(const std::filesystem::path& folder, const std::string& tag);

/// The files of one model-parallel rank, one for each data-parallel rank.
/// Throws CheckpointError, with its name, if one is missing.
std::vector<std::filesystem::path> of_rank(
    const TagFiles::ByRanks& files,
    int model_parallel_rank);

} // namespace cairn::checkpoints::deepspeed
