#pragma once

#include "checkpoints/deepspeed/zero_plan.h"

#include <cairn/checkpoints/deepspeed.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cairn::checkpoints::deepspeed {

using TensorsByName = std::map<std::string, LazyTensor>;

/// The place of a model-parallel rank: all tensor ranks of the first stage,
/// then the next stage's.
struct ModelRank {
  int number = 0;
  int count = 1;
  int tensor = 1; ///< number of tensor ranks
  /// The module's dict, in place of the one of the parameters; None for a
  /// pipeline, whose layers have files of their own.
  std::optional<PythonValue> module{};
};

/// The content of a checkpoint to write, checked and cut.
struct WritePlan {
  const DeepSpeedState& state;
  const DeepSpeedLayout& layout;
  const ModelRank& rank;
  std::vector<StoredGroup> groups{};
  TensorsByName masters{};       ///< in fp32
  std::vector<ZeroFlat> flats{}; ///< from stage 1 on
  PythonValue loss_scaler{};     ///< an object of DeepSpeed's class
};

/// Checks the content and cuts it.
WritePlan plan_of(
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout,
    const ModelRank& rank);

/// The tag that the layout names, or that of the steps.
std::string tag_of(const DeepSpeedState& state, const DeepSpeedLayout& layout);

/// Makes a new, empty folder for a tag: files of another save would be taken
/// for parts of this one.
std::filesystem::path new_folder(
    const std::filesystem::path& folder,
    const std::string& tag);

/// Writes the files of one model-parallel rank.
void write_model_rank(
    const std::filesystem::path& place,
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout,
    const ModelRank& rank);

/// The dict of a model's file.
PythonValue model_states(const WritePlan& plan, int rank);

/// The dict of a rank's optimizer, from stage 1 on.
PythonValue optimizer_shard(const WritePlan& plan, int rank);

/// The gradients' largest norm, of DeepSpeed's configuration; 0 if there is
/// none.
double clip_of(const WritePlan& plan);

/// A flat tensor of segments, one after the other, without loading any. Zeros
/// stand for tensors that are not in `tensors`.
PythonValue flat_tensor(
    const std::vector<ZeroSegment>& segments,
    const TensorsByName& tensors,
    at::ScalarType type);

/// Version of DeepSpeed that writes this layout.
inline constexpr const char* layout_version = "0.19.6";

} // namespace cairn::checkpoints::deepspeed
