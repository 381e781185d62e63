#include "checkpoints/deepspeed/tag_files.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/named_tensors.h"

#include <cairn/checkpoints/deepspeed.h>
#include <cairn/checkpoints/torch_file.h>

#include <set>

namespace cairn::checkpoints {

NamedTensors read_deepspeed_layers(const DeepSpeedSource& source) {
  const deepspeed::TagFiles files =
      deepspeed::tag_files(source.folder, source.tag);
  std::set<int> ranks;
  std::set<int> layers;
  for (const auto& [place, file] : files.layers) {
    ranks.insert(place.first);
    layers.insert(place.second);
  }
  NamedTensors result;
  if (!ranks.contains(source.model_parallel_rank)) {
    throw CheckpointError(
        {.what = "no layers of a pipeline",
         .where = files.folder.string(),
         .values = fmt::format(
             "layer_*-model_{:02}-model_states.pt",
             source.model_parallel_rank)});
  }
  for (const int layer : layers) {
    const auto file = files.layers.find({source.model_parallel_rank, layer});
    if (file == files.layers.end()) {
      throw CheckpointError(
          {.what = "a file of a layer is missing",
           .where = files.folder.string(),
           .values = fmt::format(
               "layer_{:02}-model_{:02}-model_states.pt",
               layer,
               source.model_parallel_rank)});
    }
    in_file(file->second, [&] {
      for (auto& [name, tensor] :
           named_tensors(read_torch_file(file->second))) {
        result.emplace_back(fmt::format("{}.{}", layer, name), tensor);
      }
    });
  }
  return result;
}

} // namespace cairn::checkpoints
