#include "checkpoints/convert/native_state.h"

#include "checkpoints/pickle/python_json.h"

#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

namespace {

using nlohmann::json;

/// True when weight decay is decoupled. torch's Adam says so in its groups.
bool decays_apart(const Portable& portable) {
  const auto said = portable.groups.empty()
      ? std::nullopt
      : portable.groups.front().options.find("decoupled_weight_decay");
  return !said || !said->is(PythonValue::Kind::boolean) || said->boolean();
}

/// Name of the engine's optimizer that keeps these states.
std::string optimizer_of(const Portable& portable, const std::string& named) {
  std::vector<std::string> kinds = state_kinds(portable);
  std::erase(kinds, "step");
  if (kinds.empty()) {
    return "";
  }
  if (!named.empty()) {
    return named;
  }
  if (!portable.optimizer.empty()) {
    return portable.optimizer;
  }
  using Kinds = std::vector<std::string>;
  if (kinds == Kinds{"exp_avg", "exp_avg_sq"}) {
    return decays_apart(portable) ? "adamw" : "adam";
  }
  if (kinds == Kinds{"exp_avg"}) {
    return "lion";
  }
  if (kinds == Kinds{"momentum_buffer"}) {
    return "sgd";
  }
  if (kinds == Kinds{"sum"}) {
    return "adagrad";
  }
  if (kinds == Kinds{"exp_avg_sq", "momentum_buffer"}) {
    return "muon";
  }
  throw ConfigError(
      {.what = "no optimizer that we have keeps such states",
       .values = fmt::format("{}", fmt::join(kinds, ", ")),
       .remedy = "convert the weights only"});
}

/// Number of updates, which is the same for all parameters, here and in the
/// engine.
std::int64_t steps_of(const Portable& portable) {
  for (const auto& [name, tensor] : portable.optimizer_states) {
    if (name.starts_with("step/") &&
        c10::multiply_integers(tensor.shape) == 1) {
      return tensor.load().to(at::kLong).item<std::int64_t>();
    }
  }
  return portable.steps - portable.skipped_steps;
}

json scaler_json(const PythonValue& scaler) {
  const auto number = [&](const char* key) -> std::optional<json> {
    const auto found = scaler.find(key);
    return found ? json_of(*found) : std::nullopt;
  };
  if (scaler.is_none()) {
    return {{"kind", 0}};
  }
  const auto scale = number("cur_scale");
  const auto iteration = number("cur_iter");
  const auto overflow = number("last_overflow_iter");
  const auto hysteresis = number("cur_hysteresis");
  if (!scale || !iteration || !overflow) { // a static scale
    return {{"kind", 0}};
  }
  json result{
      {"kind", hysteresis ? 1 : 2},
      {"scale", *scale},
      {"iteration", *iteration},
      {"last_overflow", *overflow}};
  if (hysteresis) {
    result["hysteresis"] = *hysteresis;
  }
  return result;
}

json client_json(Portable& portable) {
  json client = json::object();
  for (const auto& [key, value] : portable.client.entries()) {
    auto converted = json_of(value);
    const std::string name = key.is(PythonValue::Kind::text) ? key.text() : "";
    if (name.empty() || !converted || name.starts_with('$')) {
      portable.left_out.push_back("client state " + name);
    } else if (!converted->is_null()) {
      client[name] = std::move(*converted);
    }
  }
  return client;
}

json groups_json(const std::vector<StoredGroup>& groups) {
  json result = json::array();
  for (const StoredGroup& group : groups) {
    json options = json::object();
    for (const auto& [key, value] : group.options.entries()) {
      auto converted = json_of(value);
      if (key.is(PythonValue::Kind::text) && converted) {
        options[key.text()] = std::move(*converted);
      }
    }
    result.push_back({{"names", group.names}, {"options", options}});
  }
  return result;
}

} // namespace

json native_state(Portable& portable, const std::string& named) {
  const std::string optimizer = optimizer_of(portable, named);
  const auto scheduled = portable.lr_scheduler.is(PythonValue::Kind::dict)
      ? portable.lr_scheduler.find("last_batch_iteration")
      : std::nullopt;
  json state{
      {"ranks", 1},
      {"zero_stage", 0},
      {"micro_steps", portable.steps},
      {"global_steps", portable.steps},
      {"skipped_steps", portable.skipped_steps},
      {"schedule_steps",
       scheduled && scheduled->is(PythonValue::Kind::integer)
           ? scheduled->integer() + 1
           : portable.steps - portable.skipped_steps},
      {"rng", false},
      {"client", client_json(portable)}};
  if (portable.samples > 0) {
    state["samples"] = portable.samples;
  }
  // Unknown: as many samples as the training has consumed.
  state["schedule_samples"] = portable.schedule_samples
      ? json(*portable.schedule_samples)
      : portable.samples > 0 ? json(portable.samples)
                             : json();
  if (portable.validation_samples) {
    state["client"]["consumed_validation_samples"] =
        *portable.validation_samples;
  }
  if (!optimizer.empty()) {
    state["optimizer"] = {{"name", optimizer}, {"steps", steps_of(portable)}};
    state["loss_scaler"] = scaler_json(portable.loss_scaler);
    state["groups"] = groups_json(portable.groups);
  }
  if (portable.description) {
    state["model"] = json::parse(to_json(*portable.description));
  }
  return state;
}

// Steps are not tensors there: they are in the state.
NamedTensors native_tensors(const Portable& portable) {
  NamedTensors all;
  for (const auto& [name, tensor] : portable.parameters) {
    all.emplace_back("weight/" + name, tensor);
  }
  for (const auto& [name, tensor] : portable.buffers) {
    all.emplace_back("buffer/" + name, tensor);
  }
  for (const auto& [name, tensor] : portable.optimizer_states) {
    if (!name.starts_with("step/")) {
      all.emplace_back(name, tensor);
    }
  }
  return all;
}

} // namespace cairn::checkpoints
