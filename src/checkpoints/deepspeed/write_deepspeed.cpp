#include "checkpoints/deepspeed/write_plan.h"
#include "checkpoints/tensors/named_tensors.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <set>
#include <system_error>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using deepspeed::ShapeGroups;
using deepspeed::TensorsByName;
using deepspeed::WritePlan;

void check(const DeepSpeedLayout& layout) {
  if (layout.stage < 0 || layout.stage > 3 || layout.ranks < 1 ||
      layout.sub_group_size < 1) {
    throw ConfigError(
        {.what = "no layout of DeepSpeed's",
         .values =
             fmt::format("stage {}, {} ranks", layout.stage, layout.ranks)});
  }
  if (layout.type != at::kFloat && layout.type != at::kHalf &&
      layout.type != at::kBFloat16) {
    throw ConfigError(
        {.what = "DeepSpeed trains in fp32, fp16 or bf16",
         .values = c10::toString(layout.type)});
  }
}

/// fp32 copies of every parameter.
TensorsByName masters_of(const DeepSpeedState& state) {
  TensorsByName given(state.masters.begin(), state.masters.end());
  TensorsByName result;
  for (const auto& [name, tensor] : state.parameters) {
    const auto own = given.find(name);
    if (own != given.end() && own->second.shape != tensor.shape) {
      throw CheckpointError(
          {.what = "the fp32 copy of a parameter has another shape",
           .where = name});
    }
    result.emplace(
        name,
        as_type(own == given.end() ? tensor : own->second, at::kFloat));
  }
  if (result.size() != state.parameters.size()) {
    throw CheckpointError({.what = "two parameters have one name"});
  }
  return result;
}

std::vector<StoredGroup> groups_of(
    const DeepSpeedState& state,
    const TensorsByName& parameters) {
  std::vector<StoredGroup> groups = state.groups;
  if (groups.empty()) {
    for (const auto& [name, tensor] : state.parameters) {
      if (groups.empty()) {
        groups.emplace_back();
      }
      groups[0].names.push_back(name);
    }
  }
  std::set<std::string> named;
  for (const StoredGroup& group : groups) {
    for (const std::string& name : group.names) {
      if (!parameters.contains(name) || !named.insert(name).second) {
        throw CheckpointError(
            {.what = "a group names a parameter that is not there, or in "
                     "another group",
             .values = name});
      }
    }
  }
  if (named.size() != parameters.size()) {
    throw CheckpointError(
        {.what = "parameters are in no group",
         .values = fmt::format(
             "{} of {}",
             parameters.size() - named.size(),
             parameters.size())});
  }
  return groups;
}

/// The loss scaler's object. DeepSpeed takes over the object itself, so it must
/// be one of its own classes.
PythonValue loss_scaler_of(const DeepSpeedState& state, at::ScalarType type) {
  constexpr const char* module = "deepspeed.runtime.fp16.loss_scaler";
  if (type != at::kHalf) {
    return PythonValue::object(
        module,
        "LossScaler",
        {{"cur_scale", PythonValue::real(1.0)},
         {"dynamic", PythonValue::boolean(false)}});
  }
  const PythonValue& given = state.loss_scaler;
  if (given.is(PythonValue::Kind::object)) {
    return given;
  }
  std::vector<PythonValue::Member> members{
      {"cur_scale", PythonValue::real(65536.0)},
      {"dynamic", PythonValue::boolean(true)},
      {"cur_iter", PythonValue::integer(state.global_steps)},
      {"last_overflow_iter", PythonValue::integer(-1)},
      {"scale_factor", PythonValue::real(2.0)},
      {"scale_window", PythonValue::integer(1000)},
      {"min_scale", PythonValue::integer(1)},
      {"delayed_shift", PythonValue::integer(2)},
      {"cur_hysteresis", PythonValue::integer(2)},
      {"consecutive_hysteresis", PythonValue::boolean(false)},
      {"raise_error_at_min_scale", PythonValue::boolean(true)},
      {"dtype", PythonValue::global("torch", "float16")}};
  if (!given.is_none()) {
    for (auto& [key, value] : members) {
      value = given.find(key == "dynamic" ? "dynamic_loss_scale" : key)
                  .value_or(value);
    }
  }
  return PythonValue::object(module, "DynamicLossScaler", std::move(members));
}

ShapeGroups shapes_of(const WritePlan& plan) {
  ShapeGroups result;
  for (const StoredGroup& group : plan.groups) {
    auto& shapes = result.emplace_back();
    for (const std::string& name : group.names) {
      shapes.emplace_back(name, plan.masters.at(name).shape);
    }
  }
  return result;
}

} // namespace

namespace deepspeed {

std::string tag_of(const DeepSpeedState& state, const DeepSpeedLayout& layout) {
  return layout.tag.empty() ? fmt::format("global_step{}", state.global_steps)
                            : layout.tag;
}

fs::path new_folder(const fs::path& folder, const std::string& tag) {
  if (tag.empty() || tag == "." || tag == ".." ||
      tag.find('/') != std::string::npos) {
    throw ConfigError({.what = "a tag is the name of a folder", .values = tag});
  }
  const fs::path place = folder / tag;
  std::error_code error;
  fs::create_directories(place, error);
  if (error || !fs::is_empty(place, error) || error) {
    throw CheckpointError(
        {.what = "the folder is not empty or cannot be made",
         .where = place.string(),
         .values = error ? error.message() : "",
         .remedy = "remove it, or choose another tag"});
  }
  return place;
}

WritePlan plan_of(
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout,
    const ModelRank& rank) {
  check(layout);
  WritePlan plan{.state = state, .layout = layout, .rank = rank};
  plan.masters = masters_of(state);
  plan.groups = groups_of(state, plan.masters);
  plan.loss_scaler = loss_scaler_of(state, layout.type);
  if (layout.stage == 3) {
    plan.flats =
        plan_by_parameter(shapes_of(plan), layout.ranks, layout.sub_group_size);
  } else if (layout.stage > 0) {
    plan.flats = plan_by_group(shapes_of(plan), layout.ranks);
  }
  return plan;
}

void write_model_rank(
    const fs::path& place,
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout,
    const ModelRank& model_rank) {
  const WritePlan plan = plan_of(state, layout, model_rank);
  const char* precision = layout.type == at::kBFloat16 ? "bf16_" : "";
  const std::string number = fmt::format("mp_rank_{:02}", model_rank.number);
  for (int rank = 0; rank < layout.ranks; ++rank) {
    const std::string both = fmt::format("zero_pp_rank_{}_{}", rank, number);
    if (layout.stage == 3 || rank == 0) {
      write_torch_file(
          place /
              fmt::format(
                  "{}_model_states.pt",
                  layout.stage == 3 ? both : number),
          model_states(plan, rank));
    }
    if (layout.stage > 0) {
      write_torch_file(
          place / fmt::format("{}{}_optim_states.pt", precision, both),
          optimizer_shard(plan, rank));
    }
  }
}

} // namespace deepspeed

void write_deepspeed(
    const fs::path& folder,
    const DeepSpeedState& state,
    const DeepSpeedLayout& layout) {
  check(layout);
  const std::string tag = deepspeed::tag_of(state, layout);
  deepspeed::write_model_rank(
      deepspeed::new_folder(folder, tag),
      state,
      layout,
      {});
  write_file_atomically(folder / "latest", tag);
}

} // namespace cairn::checkpoints
