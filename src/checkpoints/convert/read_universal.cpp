#include "checkpoints/convert/universal.h"
#include "checkpoints/deepspeed/client_state.h"
#include "checkpoints/deepspeed/rank_files.h"
#include "checkpoints/deepspeed/universal_files.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;
using Places = std::map<std::string, fs::path>;

std::int64_t counter_in(const PythonValue& model, const char* name) {
  const auto value = deepspeed::member(model, name);
  return value ? value->integer() : 0;
}

/// The names of each group, as the model's file lists them for ZeRO.
std::vector<std::vector<std::string>> listed_groups(const PythonValue& model) {
  std::vector<std::vector<std::string>> groups;
  if (const auto shapes = deepspeed::member(model, "param_shapes")) {
    for (const auto& group : deepspeed::shape_groups(*shapes)) {
      auto& names = groups.emplace_back();
      for (const auto& [name, shape] : group) {
        names.push_back(name);
      }
    }
  }
  return groups;
}

/// Names of the parameters in the order of the groups, then others.
std::vector<std::string> ordered_names(
    const std::vector<std::vector<std::string>>& groups,
    const Places& places) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const auto& group : groups) {
    for (const std::string& name : group) {
      if (places.contains(name) && taken.insert(name).second) {
        names.push_back(name);
      }
    }
  }
  for (const auto& [name, place] : places) {
    if (taken.insert(name).second) {
      names.push_back(name);
    }
  }
  return names;
}

/// Buffers, frozen parameters and ties, which are in the model's file alone.
void read_module(
    const PythonValue& model,
    const Places& places,
    Portable& portable) {
  std::set<std::string> buffers;
  if (const auto names = deepspeed::member(model, "buffer_names")) {
    for (const PythonValue& name : names->items()) {
      buffers.insert(name.text());
    }
  }
  std::set<std::string> tied;
  if (const auto shared = deepspeed::member(model, "shared_params")) {
    for (const auto& [name, holder] : shared->entries()) {
      portable.ties.emplace_back(name.text(), holder.text());
      tied.insert(name.text());
    }
  }
  const auto module = deepspeed::member(model, "module");
  if (!module || !module->is(Kind::dict)) { // a pipeline's
    return;
  }
  bool frozen = false;
  for (auto& [name, tensor] : named_tensors(*module)) {
    if (places.contains(name)) {
      portable.trained_in = portable.trained_in.value_or(tensor.type);
    } else if (buffers.contains(name)) {
      portable.buffers.emplace_back(name, std::move(tensor));
    } else if (tied.contains(name)) {
      continue;
    } else if (tensor.shape == std::vector<std::int64_t>{0}) {
      frozen = true; // stage 3 has cut it over its ranks
    } else {
      portable.parameters.emplace_back(name, std::move(tensor));
    }
  }
  if (frozen) {
    portable.left_out.push_back(
        "frozen parameters, of which each rank had a part");
  }
}

void read_groups(
    const fs::path& folder,
    const std::vector<std::vector<std::string>>& listed,
    const std::vector<std::string>& names,
    Portable& portable) {
  const fs::path file = folder / "zero/optimizer_state.pt";
  std::vector<PythonValue> options;
  if (fs::exists(file)) {
    in_file(file, [&] {
      const PythonValue saved = read_torch_file(file);
      if (const auto groups = saved.find("param_groups")) {
        for (const PythonValue& group : groups->items()) {
          options.push_back(group_options(group));
        }
      }
      portable.loss_scaler =
          deepspeed::member(saved, "loss_scaler").value_or(PythonValue());
    });
  }
  std::size_t known = 0;
  for (const auto& group : listed) {
    known += group.size();
  }
  if (options.size() > 1 && options.size() == listed.size() &&
      known == names.size()) {
    for (std::size_t i = 0; i < options.size(); ++i) {
      portable.groups.push_back({.names = listed[i], .options = options[i]});
    }
    return;
  }
  StoredGroup all{.names = names};
  if (!options.empty()) {
    all.options = options.front();
  }
  if (options.size() > 1) {
    portable.left_out.push_back(
        "which parameters were in which group: all have the options of the "
        "first");
  }
  portable.groups.push_back(std::move(all));
}

} // namespace

Portable read_universal_checkpoint(const fs::path& folder) {
  const fs::path file = deepspeed::universal_model_file(folder);
  const Places places = deepspeed::universal_parameters(folder);
  Portable portable;
  std::vector<std::vector<std::string>> listed;
  std::vector<std::string> names;
  in_file(file, [&] {
    const PythonValue model = read_torch_file(file);
    listed = listed_groups(model);
    names = ordered_names(listed, places);
    portable.steps = counter_in(model, "global_steps");
    portable.skipped_steps = counter_in(model, "skipped_steps");
    portable.samples = counter_in(model, "global_samples");
    portable.lr_scheduler =
        deepspeed::member(model, "lr_scheduler").value_or(PythonValue());
    portable.config =
        deepspeed::member(model, "ds_config").value_or(PythonValue());
    portable.client = deepspeed::client_state_in(model);
    read_module(model, places, portable);
  });
  NamedTensors trained;
  for (const std::string& name : names) {
    for (const auto& [kind, path] :
         deepspeed::universal_states(places.at(name))) {
      LazyTensor tensor = deepspeed::universal_tensor(path);
      if (kind == "fp32") {
        trained.emplace_back(name, std::move(tensor));
      } else {
        portable.optimizer_states.emplace_back(
            fmt::format("{}/{}", kind, name),
            std::move(tensor));
      }
    }
  }
  portable.parameters.insert(
      portable.parameters.begin(),
      trained.begin(),
      trained.end());
  if (!portable.optimizer_states.empty()) {
    read_groups(folder, listed, names, portable);
  }
  return portable;
}

} // namespace cairn::checkpoints
