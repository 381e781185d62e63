// Views of Megatron's and Hugging Face's folders: models without their
// optimizer.

#include "checkpoints/huggingface/weight_files.h"
#include "checkpoints/inspect/views.h"
#include "checkpoints/megatron/rank_files.h"
#include "checkpoints/megatron/torch_dist.h"
#include "checkpoints/tensors/named_tensors.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/torch_file.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

Facts facts_of(const model::ModelDescription& description) {
  return Facts::parse(to_json(description));
}

/// Views a model that we do not know: the tensors as they lie in each rank's
/// file.
void view_ranks(CheckpointView& view, const megatron::RankFiles& files) {
  for (const fs::path& path : files.paths) {
    const PythonValue file = read_torch_file(path);
    const std::string rank = path.parent_path().filename().string();
    for (auto& [name, tensor] : named_tensors(file)) {
      view.weights.emplace_back(
          fmt::format("{}/{}", rank, name),
          std::move(tensor));
    }
  }
}

} // namespace

CheckpointView view_megatron(const fs::path& folder) {
  const auto place = megatron::find_place(folder, std::nullopt);
  CheckpointView view{.place = place.folder};
  view.about = {{"tag", view.place.filename().string()}};
  if (place.iteration) {
    view.state["step"] = *place.iteration;
  }
  try {
    MegatronCheckpoint checkpoint = read_megatron(folder);
    if (checkpoint.iteration) {
      view.state["step"] = *checkpoint.iteration;
    }
    view.about["tensor_parallel_size"] = checkpoint.split.tensor;
    view.about["pipeline_parallel_size"] = checkpoint.split.pipeline;
    if (checkpoint.split.expert > 1) {
      view.about["expert_parallel_size"] = checkpoint.split.expert;
    }
    view.about["checkpoint_version"] = checkpoint.version;
    view.about["model"] = facts_of(checkpoint.description);
    for (const auto& [key, value] : checkpoint.others) {
      view.state[key] = facts_of(value);
    }
    if (!checkpoint.args.is_none()) {
      view.config["args"] = facts_of(checkpoint.args);
    }
    view.weights = std::move(checkpoint.tensors);
    view.ties = model::model_ties(checkpoint.description);
  } catch (const CheckpointError& error) {
    if (megatron::is_torch_dist(place.folder)) {
      throw;
    }
    const auto files = megatron::find_rank_files(place);
    view.about["tensor_parallel_size"] = files.tensor;
    view.about["pipeline_parallel_size"] = files.pipeline;
    view.notes.push_back(fmt::format(
        "not put together, shown as the ranks have it: {}",
        error.what()));
    view_ranks(view, files);
  }
  return view;
}

CheckpointView view_huggingface(const fs::path& folder, WeightNames names) {
  CheckpointView view{.place = folder};
  if (names == WeightNames::cairn) {
    HuggingFaceModel model = read_huggingface(folder);
    view.about["model"] = facts_of(model.description);
    view.weights = std::move(model.tensors);
    view.ties = model::model_ties(model.description);
    return view;
  }
  const fs::path config = folder / "config.json";
  constexpr std::uint64_t largest_config = std::uint64_t{1} << 24;
  try {
    view.config = Facts::parse(read_file(config, largest_config));
    view.about["model"] = facts_of(model_description_from_huggingface(
        view.config.dump(),
        config.string()));
  } catch (const nlohmann::json::exception& error) {
    view.notes.push_back(fmt::format("{}: {}", config.string(), error.what()));
  } catch (const Error& error) {
    view.notes.push_back(error.what());
  }
  auto weights = huggingface::open_weights(folder);
  view.about["file"] = weights.file.filename().string();
  for (auto& [name, tensor] : weights.tensors) {
    view.weights.emplace_back(name, std::move(tensor));
  }
  return view;
}

} // namespace cairn::checkpoints
