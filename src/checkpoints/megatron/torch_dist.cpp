#include "checkpoints/megatron/torch_dist.h"

#include "checkpoints/megatron/names.h"
#include "checkpoints/tensors/in_file.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;

/// The stack of layers that a tensor of all of them is of: "decoder.layers.";
/// empty for other tensors.
std::string_view stack_of(std::string_view name) {
  for (const std::string_view stack : {"decoder.layers.", "encoder.layers."}) {
    if (name.starts_with(stack)) {
      return stack;
    }
  }
  return {};
}

constexpr const char* common_object = "common_state/shard_0_1";

bool is_of_model(std::string_view name) {
  return name.starts_with("decoder.") || name.starts_with("encoder.") ||
      name.starts_with("embedding.") || name.starts_with("output_layer.") ||
      name.starts_with("lm_head.") || name.starts_with("pooler.") ||
      name.starts_with("binary_head.");
}

/// The args and all else that is the same on all ranks.
PythonValue common_of(const dcp::Folder& saved, const fs::path& folder) {
  if (saved.metadata().objects.contains(common_object)) {
    const PythonValue object = saved.object(common_object);
    const bool listed = object.is(Kind::list) && object.size() == 1;
    return listed ? object.items().front() : object;
  }
  const fs::path file = folder / common_file;
  if (!fs::exists(file)) {
    throw CheckpointError(
        {.what = "no args of Megatron's",
         .where = folder.string(),
         .values =
             fmt::format("neither {} nor {}", common_object, common_file)});
  }
  return read_torch_file(file);
}

} // namespace

bool is_torch_dist(const fs::path& folder) {
  std::error_code error;
  return dcp::is_dcp(folder) &&
      (fs::exists(folder / core_file, error) ||
       fs::exists(folder / common_file, error));
}

// With layers of different kinds, each layer has a tensor of its own, with a
// number in its name.
void add_stacked(
    const dcp::Folder& saved,
    const std::string& full_name,
    std::size_t prefix,
    const fs::path& file,
    RankTensors& rank) {
  const std::string name = full_name.substr(prefix);
  const std::string_view stack = stack_of(name);
  if (stack.empty() || layer_name(name)) {
    add_tensor(rank, modern_name(name), saved.tensor(full_name), file);
    return;
  }
  const auto& shape = saved.metadata().tensors.at(full_name).shape;
  if (shape.empty() || shape[0] > most_layers) {
    throw CheckpointError(
        {.what = "a tensor of all layers with a number of layers that no model "
                 "has",
         .where = file.string(),
         .values = full_name});
  }
  for (std::int64_t layer = 0; layer < shape[0]; ++layer) {
    add_tensor(
        rank,
        modern_name(
            fmt::format("{}{}.{}", stack, layer, name.substr(stack.size()))),
        saved.layer(full_name, layer),
        file);
  }
}

bool is_second_name(
    const dcp::Folder& saved,
    std::string_view prefix,
    std::string_view name) {
  constexpr std::string_view fused =
      "decoder.layers.mlp.linear_fc1.layer_norm_";
  name.remove_prefix(prefix.size());
  if (name == second_head_bias) {
    return saved.metadata().tensors.contains(
        fmt::format("{}{}", prefix, t5_head_bias));
  }
  return name.starts_with(fused) &&
      saved.metadata().tensors.contains(fmt::format(
          "{}decoder.layers.pre_mlp_layernorm.{}",
          prefix,
          name.substr(fused.size())));
}

Contents read_torch_dist(const fs::path& folder) {
  const dcp::Folder saved(folder);
  Contents contents{
      .names = MegatronNames::core_local,
      .where = folder / dcp::metadata_name,
      .split_is_of_files = false};
  contents.first = in_file(folder, [&] { return common_of(saved, folder); });
  const std::string random_states = "rng_state/";
  const auto random = saved.metadata().objects.lower_bound(random_states);
  contents.has_random_states = random != saved.metadata().objects.end() &&
      random->first.starts_with(random_states);
  RankTensors& rank = contents.ranks.emplace_back();
  for (const auto& [name, info] : saved.metadata().tensors) {
    if (name.starts_with("optimizer.") || name.starts_with("chained_")) {
      contents.has_optimizer = true;
    } else if (
        is_of_model(name) && !is_ignored(name) &&
        !is_second_name(saved, "", name)) {
      add_stacked(saved, name, 0, contents.where, rank);
    }
  }
  return contents;
}

} // namespace cairn::checkpoints::megatron
