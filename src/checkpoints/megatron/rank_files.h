#pragma once

#include <cairn/checkpoints/megatron.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints::megatron {

/// The folder of one checkpoint.
struct CheckpointPlace {
  std::filesystem::path folder;
  std::optional<std::int64_t> iteration; ///< unset: a release, or unknown
};

/// Finds the folder of an iteration; if that is unset, the one that the tracker
/// file or DeepSpeed's `latest` names, or the folder itself. Throws
/// CheckpointError for a tracker file that names none.
CheckpointPlace find_place(
    const std::filesystem::path& folder,
    std::optional<std::int64_t> iteration);

/// The files of one checkpoint.
struct RankFiles {
  std::int64_t tensor = 0;
  std::int64_t pipeline = 0;
  /// Ranks that divide the experts, where the names of the files tell them from
  /// stages: those of a model with stages.
  std::int64_t expert = 1;
  /// All tensor ranks of a stage, then the next stage's, then those of the next
  /// expert parallel rank.
  std::vector<std::filesystem::path> paths;
  std::optional<std::int64_t> iteration; ///< unset: a release

  const std::filesystem::path& at(
      std::int64_t stage,
      std::int64_t rank,
      std::int64_t expert_rank = 0) const {
    return paths[static_cast<std::size_t>(
        (expert_rank * pipeline + stage) * tensor + rank)];
  }
};

/// Finds the files. Throws CheckpointError if there is no checkpoint, or a rank
/// is missing.
RankFiles find_rank_files(const CheckpointPlace& place);

inline constexpr const char* tracker_file = "latest_checkpointed_iteration.txt";

/// "iter_0000010" or "release".
std::string iteration_folder(std::optional<std::int64_t> iteration);

/// A rank that a file is of.
struct FileRank {
  std::int64_t tensor = 0;
  std::int64_t stage = 0;
  std::int64_t expert = 0;
};

/// "mp_rank_00", with "_001" behind it where there are several stages and again
/// where ranks divide the experts.
std::string rank_folder(const FileRank& rank, const MegatronSplit& split);

/// True when the folder holds files of some rank.
bool has_ranks(const std::filesystem::path& folder);

} // namespace cairn::checkpoints::megatron
