#include "checkpoints/megatron/zero_files.h"

#include "checkpoints/deepspeed/tag_files.h"
#include "checkpoints/megatron/layer_files.h"
#include "checkpoints/megatron/names.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/deepspeed.h>

#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;

/// The files of DeepSpeed's engine in a folder; none if it is not of DeepSpeed.
deepspeed::TagFiles engine_files(const fs::path& folder) {
  try {
    return deepspeed::tag_files(folder, "");
  } catch (const CheckpointError&) {
    return {};
  }
}

} // namespace

bool has_stage_3_files(const fs::path& folder) {
  const auto files = engine_files(folder);
  return files.models.empty() && !files.zero_models.empty();
}

bool has_zero_optimizer(const fs::path& folder) {
  return !engine_files(folder).optimizers.empty();
}

Contents read_stage_3_files(const fs::path& folder) {
  const deepspeed::TagFiles files = deepspeed::tag_files(folder, "");
  Contents contents;
  read_model_states(files.zero_models.begin()->second, contents);
  const DeepSpeedCheckpoint first({.folder = folder});
  for (int rank = 0; rank < first.model_parallel_size(); ++rank) {
    const DeepSpeedCheckpoint saved(
        {.folder = folder, .model_parallel_rank = rank});
    RankTensors& into = contents.ranks.emplace_back();
    for (auto& [given, tensor] : saved.weights()) {
      const std::string name = modern_name(given);
      // A tied embedding is listed under each of its names.
      if (!is_ignored(name) && !into.tensors.contains(name)) {
        add_tensor(into, name, std::move(tensor), contents.where);
      }
    }
  }
  contents.split = {static_cast<std::int64_t>(contents.ranks.size()), 1};
  contents.has_optimizer = true;
  return contents;
}

} // namespace cairn::checkpoints::megatron
