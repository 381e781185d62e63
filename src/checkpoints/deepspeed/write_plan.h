#pragma once

#include "checkpoints/deepspeed/zero_plan.h"

#include <cairn/checkpoints/deepspeed.h>

#include <map>
#include <string>
#include <vector>

namespace cairn::checkpoints::deepspeed {

using TensorsByName = std::map<std::string, LazyTensor>;

/// The content of a checkpoint to write, checked and cut.
struct WritePlan {
  const DeepSpeedState& state;
  const DeepSpeedLayout& layout;
  std::vector<StoredGroup> groups{};
  TensorsByName masters{};       ///< in fp32
  std::vector<ZeroFlat> flats{}; ///< from stage 1 on
  PythonValue loss_scaler{};     ///< an object of DeepSpeed's class
};

/// The dict of a model's file.
PythonValue model_states(const WritePlan& plan, int rank);

/// The dict of a rank's optimizer, from stage 1 on.
PythonValue optimizer_shard(const WritePlan& plan, int rank);

/// A flat tensor of segments, one after the other, without loading any. Zeros
/// stand for tensors that are not in `tensors`.
PythonValue flat_tensor(
    const std::vector<ZeroSegment>& segments,
    const TensorsByName& tensors,
    at::ScalarType type);

/// Version of DeepSpeed that writes this layout.
inline constexpr const char* layout_version = "0.19.6";

} // namespace cairn::checkpoints::deepspeed
