#include "checkpoints/convert/native.h"
#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/internal/damaged_checkpoint.h"
#include "checkpoints/internal/native_source.h"
#include "checkpoints/pickle/python_json.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path place_of(const fs::path& folder, const std::string& tag) {
  if (!tag.empty()) {
    check_tag(tag);
    return folder / tag;
  }
  if (fs::exists(folder / manifest_name)) {
    return folder;
  }
  const std::vector<std::string> tags = load_order(
      folder,
      [](const std::string& problem) { Logger().warning("{}", problem); });
  if (tags.empty()) {
    throw CheckpointError(
        {.what = "no checkpoint of Cairn's", .where = folder.string()});
  }
  return folder / tags.front();
}

/// Names in the order in which they were written: the model's order, or near
/// it.
std::vector<std::string> names_as_written(const Manifest& manifest) {
  std::vector<std::tuple<std::size_t, std::uint64_t, std::string>> places;
  for (const auto& [name, tensor] : manifest.tensors) {
    const bool any = !tensor.slices.empty();
    places.emplace_back(
        any ? tensor.slices.front().file : 0,
        any ? tensor.slices.front().at : 0,
        name);
  }
  std::ranges::sort(places);
  std::vector<std::string> names;
  for (auto& [file, at, name] : places) {
    names.push_back(std::move(name));
  }
  return names;
}

/// A single group of all trained parameters. A frozen parameter has no states.
std::vector<StoredGroup> one_group(
    const Portable& portable,
    const json& config) {
  std::set<std::string> trained;
  for (const auto& [name, tensor] : portable.optimizer_states) {
    trained.insert(name.substr(name.find('/') + 1));
  }
  StoredGroup group;
  for (const auto& [name, tensor] : portable.parameters) {
    if (trained.contains(name)) {
      group.names.push_back(name);
    }
  }
  const auto options = json::json_pointer("/deepspeed/optimizer/params");
  if (config.contains(options) && config[options].is_object()) {
    group.options = python_of(config[options]);
  }
  return {std::move(group)};
}

std::vector<StoredGroup> groups_from(const json& saved) {
  std::vector<StoredGroup> groups;
  for (const json& group : saved) {
    groups.push_back(
        {.names = group.at("names").get<std::vector<std::string>>(),
         .options = python_of(group.at("options"))});
  }
  return groups;
}

/// Adds a step for each parameter, as torch's optimizers have it.
void add_steps(Portable& portable, std::int64_t steps) {
  const at::Tensor value = at::full({}, steps, at::kFloat);
  for (const StoredGroup& group : portable.groups) {
    for (const std::string& name : group.names) {
      portable.optimizer_states.emplace_back(
          "step/" + name,
          LazyTensor{at::kFloat, {}, [value] { return value.clone(); }});
    }
  }
}

/// The loss scaler under DeepSpeed's names. A static scale needs no state.
PythonValue scaler_from(const json& saved) {
  const auto kind = saved.at("kind").get<std::size_t>();
  if (kind != 1 && kind != 2) {
    return {};
  }
  std::vector<PythonValue::Member> members{
      {"dynamic_loss_scale", PythonValue::boolean(true)},
      {"cur_scale", python_of(saved.at("scale"))},
      {"cur_iter", python_of(saved.at("iteration"))},
      {"last_overflow_iter", python_of(saved.at("last_overflow"))}};
  if (kind == 1) {
    members.emplace_back("cur_hysteresis", python_of(saved.at("hysteresis")));
  }
  return PythonValue::dict_of(std::move(members));
}

/// Reads the client state. Tensors and bytes in it are left out.
void read_client(const json& saved, Portable& portable) {
  std::vector<PythonValue::Member> members;
  for (const auto& [name, value] : saved.items()) {
    if (value.dump().find("\"$") != std::string::npos) {
      portable.left_out.push_back("client state " + name);
    } else {
      members.emplace_back(name, python_of(value));
    }
  }
  portable.client = PythonValue::dict_of(std::move(members));
}

/// The flags of the run that Megatron compares with its own; None if there are
/// none.
PythonValue args_from(const json& config) {
  const auto flags = config.find("flags");
  if (flags == config.end() || !flags->is_object()) {
    return {};
  }
  const auto type = flags->find("--tokenizer-type");
  return type != flags->end() && type->is_string()
      ? PythonValue::object(
            "argparse",
            "Namespace",
            {{"tokenizer_type", PythonValue::text(*type)}})
      : PythonValue();
}

/// The type that the run trained in; unset for fp32.
std::optional<at::ScalarType> trained_in(const json& config) {
  for (const auto& [name, type] :
       {std::pair{"fp16", at::kHalf}, {"bf16", at::kBFloat16}}) {
    const json::json_pointer enabled(
        fmt::format("/deepspeed/{}/enabled", name));
    if (config.contains(enabled) && config[enabled].is_boolean() &&
        config[enabled].get<bool>()) {
      return type;
    }
  }
  return std::nullopt;
}

/// Puts the values of the next update into the options of a group: after
/// DeepSpeed has loaded them, its first update takes them, not its schedule's.
PythonValue with_next_values(PythonValue options, const json& optimizer) {
  const auto values = optimizer.find("next_values");
  if (values == optimizer.end() || !values->is_array() || values->empty()) {
    return options;
  }
  const json* chosen = &values->front();
  for (const json& group : *values) {
    if (group.at("weight_decay").get<double>() != 0) {
      chosen = &group;
      break;
    }
  }
  std::vector<PythonValue::Entry> entries = options.entries();
  for (const char* key : {"lr", "weight_decay"}) {
    std::erase_if(entries, [&](const PythonValue::Entry& entry) {
      return entry.first.is(PythonValue::Kind::text) &&
          entry.first.text() == key;
    });
    entries.emplace_back(
        PythonValue::text(key),
        PythonValue::real(chosen->at(key).get<double>()));
  }
  return PythonValue::dict(std::move(entries));
}

/// Gives word embeddings and the output layer a group of their own, if the run
/// gave them a learning rate of their own.
void divide_by_rate(
    const json& config,
    const json& optimizer,
    std::vector<StoredGroup>& groups) {
  const auto flags = config.find("flags");
  if (flags == config.end() || !flags->contains("--decoupled-lr")) {
    return;
  }
  StoredGroup& others = groups.front();
  StoredGroup own;
  std::erase_if(others.names, [&](const std::string& name) {
    const bool moves = name == "embedding.word.weight" || name == "head.weight";
    if (moves) {
      own.names.push_back(name);
    }
    return moves;
  });
  std::vector<PythonValue::Entry> entries = others.options.entries();
  const auto set = [&](const char* key, const json& value) {
    std::erase_if(entries, [&](const PythonValue::Entry& entry) {
      return entry.first.is(PythonValue::Kind::text) &&
          entry.first.text() == key;
    });
    entries.emplace_back(PythonValue::text(key), python_of(value));
  };
  set("max_lr", flags->at("--decoupled-lr"));
  if (flags->contains("--decoupled-min-lr")) {
    set("min_lr", flags->at("--decoupled-min-lr"));
  }
  // The engine has their group behind those of matrices and vectors.
  const auto values = optimizer.find("next_values");
  if (values != optimizer.end() && values->is_array() && !values->empty()) {
    set("lr", values->back().at("lr"));
  }
  own.options = PythonValue::dict(std::move(entries));
  groups.push_back(std::move(own)); // `others` is no longer what it was
}

void read_state(const Manifest& manifest, Portable& portable) {
  const json& state = manifest.state;
  portable.steps = state.at("global_steps").get<std::int64_t>();
  portable.skipped_steps = state.at("skipped_steps").get<std::int64_t>();
  portable.samples = state.value("samples", std::int64_t{0});
  std::int64_t updates = state.at("schedule_steps").get<std::int64_t>();
  const auto counted = state.find("schedule_samples");
  if (counted != state.end() && counted->is_number_integer()) {
    portable.schedule_samples = counted->get<std::int64_t>();
    updates = portable.steps - portable.skipped_steps;
  }
  portable.lr_scheduler = PythonValue::dict_of(
      {{"last_batch_iteration", PythonValue::integer(updates - 1)}});
  if (state.contains("model")) {
    portable.description =
        model::model_description_from_json(state["model"].dump(), "\"model\"");
  }
  if (state.contains("loss_scaler")) {
    portable.loss_scaler = scaler_from(state["loss_scaler"]);
  }
  if (manifest.config.is_object() && !manifest.config.empty()) {
    const auto deepspeed = manifest.config.find("deepspeed");
    portable.config = python_of(
        deepspeed == manifest.config.end() ? manifest.config : *deepspeed);
    if (const auto flags = manifest.config.find("flags");
        flags != manifest.config.end() && flags->is_object()) {
      portable.flags = python_of(*flags);
    }
  }
  portable.megatron_args = args_from(manifest.config);
  portable.trained_in = trained_in(manifest.config);
  read_client(state.at("client"), portable);
  const auto validated = state["client"].find("consumed_validation_samples");
  if (validated != state["client"].end() && validated->is_number_integer()) {
    portable.validation_samples = validated->get<std::int64_t>();
  }
  if (!portable.optimizer_states.empty()) {
    portable.groups = state.contains("groups")
        ? groups_from(state["groups"])
        : one_group(portable, manifest.config);
    const json& optimizer = state.at("optimizer");
    if (!state.contains("groups")) {
      portable.groups.front().options =
          with_next_values(portable.groups.front().options, optimizer);
      divide_by_rate(manifest.config, optimizer, portable.groups);
    }
    const auto name = optimizer.at("name").get<std::string>();
    portable.optimizer = name;
    if (name == "adam" || name == "adamw" || name == "lamb") {
      add_steps(portable, optimizer.at("steps").get<std::int64_t>());
    }
  }
}

} // namespace

Portable read_native(const fs::path& folder, const std::string& tag) {
  const fs::path place = place_of(folder, tag);
  const auto source = std::make_shared<const NativeSource>(place);
  const Manifest& manifest = source->manifest();
  Portable portable;
  std::vector<std::pair<std::string, std::string>> states;
  std::set<std::string> parameters;
  for (const std::string& name : names_as_written(manifest)) {
    const auto slash = std::min(name.find('/'), name.size());
    const std::string kind = name.substr(0, slash);
    const std::string of = slash < name.size() ? name.substr(slash + 1) : "";
    if (kind == "weight") {
      portable.parameters.emplace_back(of, lazy_tensor(source, name));
      parameters.insert(of);
    } else if (kind == "buffer") {
      portable.buffers.emplace_back(of, lazy_tensor(source, name));
    } else {
      states.emplace_back(name, of);
    }
  }
  bool random = false;
  for (const auto& [name, of] : states) {
    // Skips generators and client tensors.
    if (parameters.contains(of)) {
      portable.optimizer_states.emplace_back(name, lazy_tensor(source, name));
    }
    random |= name.starts_with("rng/");
  }
  portable.ties = manifest.ties;
  try {
    read_state(manifest, portable);
  } catch (const json::exception& error) {
    throw DamagedCheckpoint(
        {.what = "the manifest's state is damaged",
         .where = place.string(),
         .values = error.what()});
  }
  // Models of Cairn's draw nothing from them: their dropout follows from the
  // seed.
  if (random && !portable.description) {
    portable.left_out.push_back(
        "random states, from which the program's own random numbers go on");
  }
  return portable;
}

} // namespace cairn::checkpoints
