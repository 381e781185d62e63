#include "checkpoints/deepspeed/tag_files.h"
#include "checkpoints/deepspeed/universal_files.h"
#include "checkpoints/inspect/views.h"

#include <cairn/checkpoints/deepspeed.h>
#include <fmt/format.h>

#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

/// Adds tensors. With model parallelism each rank's tensors get names of their
/// own.
void add(
    NamedTensors& to,
    NamedTensors from,
    int model_parallel_rank,
    int model_parallel_size) {
  for (auto& [name, tensor] : from) {
    to.emplace_back(
        model_parallel_size == 1
            ? name
            : fmt::format("mp_rank_{:02}/{}", model_parallel_rank, name),
        std::move(tensor));
  }
}

void add_if_any(Facts& facts, const char* key, const PythonValue& value) {
  if (!value.is_none()) {
    facts[key] = facts_of(value);
  }
}

Facts facts_of(const std::vector<StoredGroup>& groups) {
  Facts facts = Facts::array();
  for (const StoredGroup& group : groups) {
    facts.push_back(
        {{"parameters", group.names.size()},
         {"options", facts_of(group.options)}});
  }
  return facts;
}

/// Views a universal checkpoint: the tensors of all ranks, joined.
CheckpointView view_universal(const fs::path& folder) {
  CheckpointView view{.place = folder};
  view.about = {{"tag", folder.filename().string()}, {"universal", true}};
  for (const auto& [name, place] : deepspeed::universal_parameters(folder)) {
    for (const auto& [kind, file] : deepspeed::universal_states(place)) {
      auto& into = kind == "fp32" ? view.weights : view.states;
      into.emplace_back(
          kind == "fp32" ? name : fmt::format("{}/{}", kind, name),
          deepspeed::universal_tensor(file));
    }
  }
  return view;
}

} // namespace

CheckpointView view_deepspeed(const fs::path& folder) {
  const auto files = deepspeed::tag_files(folder, "");
  if (deepspeed::is_universal(files.folder)) {
    return view_universal(files.folder);
  }
  if (!files.experts.empty()) { // each in a file; of Megatron-DeepSpeed's
    return view_megatron(files.folder);
  }
  const DeepSpeedCheckpoint first({.folder = folder});
  const int size = first.model_parallel_size();
  CheckpointView view{
      .place = fs::exists(folder / "latest") ? folder / first.tag() : folder};
  view.about = {
      {"tag", view.place.filename().string()},
      {"ranks", first.ranks()},
      {"zero_stage", first.stage()},
      {"model_parallel_size", size}};
  view.state = {
      {"step", first.global_steps()},
      {"skipped_steps", first.skipped_steps()},
      {"samples", first.global_samples()},
      {"groups", facts_of(first.groups())}};
  add_if_any(view.state, "lr_scheduler", first.lr_scheduler());
  add_if_any(view.state, "loss_scaler", first.loss_scaler());
  add_if_any(view.state, "client", first.client_state());
  add_if_any(view.config, "deepspeed", first.config());
  view.ties = first.ties();
  for (int rank = 0; rank < size; ++rank) {
    const DeepSpeedCheckpoint checkpoint(
        {.folder = folder, .model_parallel_rank = rank});
    // The fp32 copies that the optimizer updates, where there are any: the
    // other weights are these, rounded.
    NamedTensors weights = checkpoint.masters().empty()
        ? checkpoint.weights()
        : checkpoint.fp32_weights();
    drop_ties(weights, checkpoint.ties());
    add(view.weights, std::move(weights), rank, size);
    add(view.states, checkpoint.optimizer_states(), rank, size);
  }
  return view;
}

} // namespace cairn::checkpoints
