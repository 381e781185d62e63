#include "checkpoints/megatron/layer_files.h"

#include "checkpoints/deepspeed/tag_files.h"
#include "checkpoints/megatron/names.h"
#include "checkpoints/megatron/optimizer_contents.h"
#include "checkpoints/megatron/pipeline_names.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/named_tensors.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/deepspeed.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;

struct LayerFile {
  fs::path path;
  NamedTensors tensors;
};

/// The layers of one tensor rank, by number. All ranks have the same.
std::map<std::int64_t, LayerFile> layers_of(
    const deepspeed::TagFiles& files,
    int rank,
    const std::set<int>& numbers) {
  std::map<std::int64_t, LayerFile> layers;
  for (const int number : numbers) {
    const auto found = files.layers.find({rank, number});
    if (found == files.layers.end()) {
      throw CheckpointError(
          {.what = "a file of a layer is missing",
           .where = files.folder.string(),
           .values = fmt::format(
               "layer_{:02}-model_{:02}-model_states.pt",
               number,
               rank)});
    }
    LayerFile layer{.path = found->second};
    layer.tensors = in_file(layer.path, [&] {
      return named_tensors(read_torch_file(layer.path));
    });
    layers.emplace(number, std::move(layer));
  }
  return layers;
}

RankTensors tensors_of(std::map<std::int64_t, LayerFile> layers) {
  std::map<std::int64_t, std::set<std::string>> names;
  for (const auto& [number, layer] : layers) {
    for (const auto& [name, tensor] : layer.tensors) {
      names[number].insert(name);
    }
  }
  const PipelineNames whole(names);
  RankTensors rank;
  for (auto& [number, layer] : layers) {
    for (auto& [given, tensor] : layer.tensors) {
      const auto name = whole.whole(number, given);
      if (name && !is_ignored(*name)) {
        add_tensor(rank, modern_name(*name), std::move(tensor), layer.path);
      }
    }
  }
  return rank;
}

} // namespace

bool has_layer_files(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("layer_") && name.ends_with("-model_states.pt")) {
      return true;
    }
  }
  return false;
}

void read_model_states(const fs::path& file, Contents& contents) {
  contents.where = file;
  contents.first = read_torch_file(file);
  in_file(file, [&] {
    if (!contents.first.is(Kind::dict)) {
      throw CheckpointError({.what = "not a file of DeepSpeed's engine"});
    }
    const auto info = contents.first.find("universal_checkpoint_info");
    const auto vocabulary = info && info->is(Kind::dict)
        ? info->find("original_vocab_size")
        : std::nullopt;
    if (vocabulary && vocabulary->is(Kind::integer)) {
      contents.vocabulary = vocabulary->integer();
    }
  });
}

Contents read_layer_files(const fs::path& folder) {
  const deepspeed::TagFiles files = deepspeed::tag_files(folder, "");
  std::set<int> ranks;
  std::set<int> numbers;
  for (const auto& [place, file] : files.layers) {
    ranks.insert(place.first);
    numbers.insert(place.second);
  }
  if (files.models.empty() || files.models.begin()->first != 0) {
    throw CheckpointError(
        {.what = "the file of the first rank is missing",
         .where = folder.string(),
         .values = "mp_rank_00_model_states.pt"});
  }
  Contents contents;
  read_model_states(files.models.begin()->second, contents);
  for (const int rank : ranks) {
    if (rank != static_cast<int>(contents.ranks.size())) {
      throw CheckpointError(
          {.what = "the layers of a tensor rank are missing",
           .where = folder.string(),
           .values =
               fmt::format("layer_*-model_{:02}", contents.ranks.size())});
    }
    contents.ranks.push_back(tensors_of(layers_of(files, rank, numbers)));
  }
  const auto tensor = static_cast<std::int64_t>(contents.ranks.size());
  contents.split = {
      tensor,
      std::max<std::int64_t>(
          1,
          static_cast<std::int64_t>(files.models.size()) / tensor)};
  contents.has_optimizer = !files.optimizers.empty();
  return contents;
}

OptimizerContents read_layer_optimizer(
    const fs::path& folder,
    const Contents& contents) {
  OptimizerContents result;
  const auto tensor = static_cast<int>(contents.ranks.size());
  const auto stages = static_cast<int>(contents.split.pipeline);
  std::vector<NamedTensors> masters;
  std::vector<NamedTensors> states;
  std::set<std::string> given;
  for (int rank = 0; rank < tensor * stages; ++rank) {
    const DeepSpeedCheckpoint saved(
        {.folder = folder, .model_parallel_rank = rank});
    masters.push_back(saved.masters());
    states.push_back(saved.optimizer_states());
    for (const auto& [name, value] : masters.back()) {
      given.insert(name);
    }
    for (const auto& [name, value] : states.back()) {
      given.insert(name.substr(name.find('/') + 1));
    }
    if (rank == 0) {
      for (const StoredGroup& group : saved.groups()) {
        result.groups.push_back(group.options);
      }
      result.loss_scaler = saved.loss_scaler();
    }
  }
  const auto whole = whole_names(given);
  const auto add = [&](const std::string& kind,
                       const std::string& name,
                       const LazyTensor& value,
                       int rank) {
    auto& ranks = result.states[kind];
    ranks.resize(static_cast<std::size_t>(tensor));
    RankTensors& into = ranks[static_cast<std::size_t>(rank % tensor)];
    const std::string ours = modern_name(whole.at(name));
    // The last stage has a copy of a tied embedding, whose positions it does
    // not train.
    if (!into.tensors.contains(ours)) {
      add_tensor(into, ours, value, folder);
    }
  };
  for (int rank = 0; rank < tensor * stages; ++rank) {
    const auto number = static_cast<std::size_t>(rank);
    for (const auto& [name, value] : masters[number]) {
      add(master_kind, name, value, rank);
    }
    for (const auto& [name, value] : states[number]) {
      const auto slash = name.find('/');
      const std::string kind = name.substr(0, slash);
      if (kind != "step") {
        add(kind, name.substr(slash + 1), value, rank);
      } else if (value.rows() == 1) {
        result.steps = std::max(
            result.steps,
            value.load().to(at::kLong).item<std::int64_t>());
      }
    }
  }
  return result;
}

} // namespace cairn::checkpoints::megatron
