#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::checkpoints::deepspeed {

/// What lies in the folder of one save.
struct TagFiles {
  std::filesystem::path folder;
  std::string tag;
  /// By model-parallel rank: stages 0 to 2.
  std::map<int, std::filesystem::path> models;
  /// By model-parallel and data-parallel rank.
  using ByRanks = std::map<std::pair<int, int>, std::filesystem::path>;
  ByRanks zero_models; ///< stage 3
  ByRanks optimizers;
  /// Of pipelines, by tensor-parallel rank and layer.
  ByRanks layers;
};

/// Of a tag; with none, of that which `latest` names, or of the folder itself.
/// Throws CheckpointError for two files of one rank and for what is not read.
TagFiles tag_files(const std::filesystem::path& folder, const std::string& tag);

/// The files of one model-parallel rank, one for each data-parallel rank.
/// Throws CheckpointError, with its name, if one is missing.
std::vector<std::filesystem::path> of_rank(
    const TagFiles::ByRanks& files,
    int model_parallel_rank);

} // namespace cairn::checkpoints::deepspeed
