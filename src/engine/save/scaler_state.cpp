#include "engine/save/scaler_state.h"

#include <nlohmann/json.hpp>

#include <variant>

namespace cairn::inline engine {

namespace {

using nlohmann::json;

// The state of each kind, without its options.

template <typename Visit>
void fields(optim::StaticScale&, const Visit&) {}

template <typename Visit>
void fields(optim::ZeroScale& state, const Visit& visit) {
  visit("scale", state.scale);
  visit("hysteresis", state.hysteresis);
  visit("iteration", state.iteration);
  visit("last_overflow", state.last_overflow);
}

template <typename Visit>
void fields(optim::FusedScale& state, const Visit& visit) {
  visit("scale", state.scale);
  visit("iteration", state.iteration);
  visit("last_overflow", state.last_overflow);
}

template <typename Visit>
void fields(optim::MegatronScale& state, const Visit& visit) {
  visit("scale", state.scale);
  visit("hysteresis", state.hysteresis);
  visit("clean_steps", state.clean_steps);
}

template <typename Visit>
void fields(optim::AmpScale& state, const Visit& visit) {
  visit("scale", state.scale);
  visit("clean_steps", state.clean_steps);
}

/// True for DeepSpeed's two kinds. One of them tolerates no overflow; else they
/// go by the same numbers.
bool counts_updates(std::size_t kind) {
  return kind == optim::LossScaler::State(optim::ZeroScale()).index() ||
      kind == optim::LossScaler::State(optim::FusedScale()).index();
}

} // namespace

json to_json(const optim::LossScaler& scaler) {
  json result{{"kind", scaler.state().index()}};
  optim::LossScaler::State state = scaler.state();
  std::visit(
      [&](auto& kind) {
        fields(kind, [&](const char* name, const auto& value) {
          result[name] = value;
        });
      },
      state);
  return result;
}

bool from_json(const json& json, optim::LossScaler& scaler) {
  optim::LossScaler::State state = scaler.state();
  const auto saved = json.at("kind").get<std::size_t>();
  if (saved != state.index() &&
      !(counts_updates(saved) && counts_updates(state.index()))) {
    return false;
  }
  std::visit(
      [&](auto& kind) {
        fields(kind, [&](const char* name, auto& value) {
          if (saved == state.index() || json.contains(name)) {
            json.at(name).get_to(value);
          }
        });
      },
      state);
  scaler = optim::LossScaler(state);
  return true;
}

} // namespace cairn::engine
