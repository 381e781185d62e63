#include "checkpoints/deepspeed/write_universal.h"

#include "checkpoints/tensors/make_folder.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::checkpoints::deepspeed {

namespace {

namespace fs = std::filesystem;
using Members = std::vector<PythonValue::Member>;

/// The folder of a parameter. Names come from files and become names of
/// folders.
fs::path parameter_folder(const fs::path& zero, const std::string& name) {
  if (name.empty() || name == "." || name == ".." ||
      name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    throw ConfigError(
        {.what = "a universal checkpoint has a folder for each parameter, and "
                 "this is no name of a folder",
         .values = name});
  }
  return zero / name;
}

/// True for a number of the optimizer, not a tensor like the parameter.
bool is_step(const std::string& kind, const LazyTensor& tensor) {
  return kind == "step" && tensor.rows() == 1 && tensor.row_elements() == 1;
}

void write_parameter(
    const fs::path& folder,
    const LazyTensor& master,
    const NamedTensors& states,
    const Members& beside) {
  make_folder(folder);
  const auto put = [&](const std::string& kind, const LazyTensor& tensor) {
    Members members = beside;
    members.emplace_back(
        "param",
        PythonValue::tensor(as_type(tensor, at::kFloat)));
    write_torch_file(
        folder / (kind + ".pt"),
        PythonValue::dict_of(std::move(members)));
  };
  put("fp32", master);
  for (const auto& [kind, tensor] : states) {
    if (is_step(kind, tensor)) {
      write_torch_file(
          folder / "step.pt",
          PythonValue::tensor(as_type(tensor, at::kFloat)));
    } else if (tensor.shape == master.shape) {
      put(kind, tensor);
    } else {
      throw ConfigError(
          {.what = "a universal checkpoint has only states of the size of "
                   "their parameter",
           .where = folder.filename().string(),
           .values = kind,
           .remedy = "convert without --universal, or with --weights-only"});
    }
  }
}

/// The number of updates that the first parameter of a group has had.
std::optional<PythonValue> step_of_group(
    const StoredGroup& group,
    const std::map<std::string, NamedTensors>& states) {
  if (group.names.empty()) {
    return std::nullopt;
  }
  for (const auto& [kind, tensor] : states.at(group.names.front())) {
    if (is_step(kind, tensor)) {
      return PythonValue::tensor(as_type(tensor, at::kFloat));
    }
  }
  return std::nullopt;
}

/// The file of what all parameters share. Stages 1 and 2 look for the groups at
/// its top, stage 3 in a dict in it.
PythonValue shared_state(
    const WritePlan& plan,
    const std::map<std::string, NamedTensors>& states) {
  std::vector<PythonValue> groups;
  std::vector<PythonValue::Entry> steps;
  std::vector<PythonValue> zeros;
  std::vector<PythonValue> ones;
  for (std::size_t i = 0; i < plan.groups.size(); ++i) {
    const PythonValue number =
        PythonValue::integer(static_cast<std::int64_t>(i));
    auto entries = plan.groups[i].options.entries();
    entries.emplace_back(
        PythonValue::text("params"),
        PythonValue::list({number}));
    groups.push_back(PythonValue::dict(std::move(entries)));
    if (auto step = step_of_group(plan.groups[i], states)) {
      steps.emplace_back(
          number,
          PythonValue::dict_of({{"step", std::move(*step)}}));
    }
    zeros.push_back(PythonValue::integer(0));
    ones.push_back(PythonValue::integer(1));
  }
  const PythonValue listed = PythonValue::list(std::move(groups));
  return PythonValue::dict_of(
      {{"loss_scaler", plan.loss_scaler},
       {"dynamic_loss_scale", plan.loss_scaler.at("dynamic")},
       {"overflow", PythonValue::boolean(false)},
       {"clip_grad", PythonValue::real(clip_of(plan))},
       {"zero_stage", PythonValue::integer(1)},
       {"group_paddings", PythonValue::list(std::move(zeros))},
       {"partition_count", PythonValue::list(std::move(ones))},
       {"ds_version", PythonValue::text(layout_version)},
       {"param_groups", listed},
       {"optimizer_state_dict",
        PythonValue::dict_of(
            {{"state", PythonValue::dict(std::move(steps))},
             {"param_groups", listed}})}});
}

} // namespace

void write_universal(
    const fs::path& folder,
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout,
    const ModelRank& rank,
    const UniversalMembers& members) {
  DeepSpeedLayout whole = layout;
  whole.ranks = 1;
  whole.stage = 1;
  const WritePlan plan = plan_of(state, whole, rank);
  DeepSpeedLayout cut = whole;
  cut.stage = 3;
  const WritePlan plan_of_3 = plan_of(state, cut, rank);
  const auto states = states_by_parameter(plan.groups, state.optimizer_states);
  const std::string tag =
      layout.tag.empty() ? tag_of(state, layout) + "_universal" : layout.tag;
  const fs::path place = new_folder(folder, tag);
  const fs::path zero = place / "zero";
  for (const StoredGroup& group : plan.groups) {
    for (const std::string& name : group.names) {
      const auto given = members.find(name);
      write_parameter(
          parameter_folder(zero, name),
          plan.masters.at(name),
          states.at(name),
          given == members.end() ? Members{{"cat_dim", PythonValue::integer(0)}}
                                 : given->second);
    }
  }
  write_torch_file(zero / "optimizer_state.pt", shared_state(plan, states));
  // Each stage looks for its own name of the models' files, of which DeepSpeed
  // wants as many as there are model-parallel ranks, unless it has a pipeline.
  for (int number = 0; number < rank.count; ++number) {
    const std::string name =
        fmt::format("mp_rank_{:02}_model_states.pt", number);
    write_torch_file(place / name, model_states(plan, 0));
    write_torch_file(
        place / ("zero_pp_rank_0_" + name),
        model_states(plan_of_3, 0));
  }
  write_file_atomically(folder / "latest_universal", tag);
}

} // namespace cairn::checkpoints::deepspeed
