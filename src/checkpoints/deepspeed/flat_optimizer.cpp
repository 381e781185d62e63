#include "checkpoints/deepspeed/flat_optimizer.h"

#include "checkpoints/tensors/in_file.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace cairn::checkpoints::deepspeed {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;

/// States by group. Elastic checkpoints have a list, others a state of
/// torch.optim.
std::map<std::int64_t, PythonValue> group_states(const PythonValue& saved) {
  if (saved.is(Kind::dict)) {
    return by_number(saved.at("state"));
  }
  std::map<std::int64_t, PythonValue> result;
  for (const PythonValue& state : saved.items()) {
    result.emplace(static_cast<std::int64_t>(result.size()), state);
  }
  return result;
}

bool is_flat(const PythonValue& value) {
  return value.is(Kind::tensor) && !value.stored().sizes.empty();
}

} // namespace

FlatOptimizer::FlatOptimizer(
    const FlatKeys& keys,
    ShapeGroups parameters,
    std::vector<PythonValue> dicts,
    std::vector<fs::path> files)
    : keys_(keys),
      parameters_(std::move(parameters)),
      dicts_(std::move(dicts)),
      files_(std::move(files)) {
  auto weights = std::make_shared<FlatTensors>();
  FlatSizes sizes;
  for (std::size_t rank = 0; rank < dicts_.size(); ++rank) {
    in_file(files_[rank], [&] {
      weights->push_back(dicts_[rank].at(keys_.weights).items());
      auto& own = sizes.emplace_back();
      for (const PythonValue& group : weights->back()) {
        own.push_back(elements_of(group.stored().sizes));
      }
    });
  }
  weights_ = std::move(weights);
  plan_ = keys_.by_parameter ? cut_by_parameter(parameters_, sizes, files_)
                             : cut_by_group(parameters_, sizes, files_);
}

NamedTensors FlatOptimizer::weights() const {
  NamedTensors result;
  for (const FlatParameter& parameter : plan_) {
    result.emplace_back(parameter.name, joined(parameter, weights_, files_));
  }
  return result;
}

NamedTensors FlatOptimizer::states() const {
  const std::size_t groups = weights_->at(0).size();
  std::vector<std::map<std::int64_t, PythonValue>> states; // by rank and group
  for (std::size_t rank = 0; rank < dicts_.size(); ++rank) {
    states.push_back(in_file(files_[rank], [&] {
      const auto saved = dicts_[rank].find(keys_.states);
      return saved ? group_states(*saved)
                   : std::map<std::int64_t, PythonValue>();
    }));
  }
  // The flat tensors of one kind of state, of all ranks and groups.
  std::map<std::string, std::shared_ptr<const FlatTensors>> kinds;
  const auto tensors_of = [&](const std::string& kind) {
    auto& tensors = kinds[kind];
    if (!tensors) {
      FlatTensors all(states.size(), std::vector<PythonValue>(groups));
      for (std::size_t rank = 0; rank < states.size(); ++rank) {
        for (const auto& [group, state] : states[rank]) {
          if (auto value = state.find(kind); value && group >= 0 &&
              group < static_cast<std::int64_t>(groups)) {
            all[rank][static_cast<std::size_t>(group)] = *std::move(value);
          }
        }
      }
      tensors = std::make_shared<const FlatTensors>(std::move(all));
    }
    return tensors;
  };
  NamedTensors result;
  for (const FlatParameter& parameter : plan_) {
    if (parameter.pieces.empty()) {
      continue; // it has no elements
    }
    const auto group =
        static_cast<std::int64_t>(parameter.pieces.front().group);
    const auto state = states[0].find(group);
    if (state == states[0].end()) {
      continue; // the group never had a gradient
    }
    for (const auto& [key, value] : state->second.entries()) {
      const std::string name = fmt::format("{}/{}", key.text(), parameter.name);
      if (is_flat(value)) {
        result.emplace_back(
            name,
            joined(parameter, tensors_of(key.text()), files_));
      } else if (auto number = state_tensor(value)) {
        result.emplace_back(name, *std::move(number));
      }
    }
  }
  return result;
}

std::vector<StoredGroup> FlatOptimizer::groups() const {
  std::vector<StoredGroup> result;
  const auto add_names = [&](StoredGroup& group, std::size_t flat) {
    for (const auto& [name, shape] : parameters_.at(flat)) {
      group.names.push_back(name);
    }
  };
  const auto saved = dicts_[0].find(keys_.states);
  if (!saved || !saved->is(Kind::dict)) {
    for (std::size_t flat = 0; flat < parameters_.size(); ++flat) {
      add_names(result.emplace_back(), flat);
    }
    return result;
  }
  in_file(files_[0], [&] {
    for (const PythonValue& group : saved->at("param_groups").items()) {
      result.push_back({.options = group_options(group)});
      for (const PythonValue& number : group.at("params").items()) {
        const std::int64_t flat = number.integer();
        if (flat < 0 || flat >= static_cast<std::int64_t>(parameters_.size())) {
          throw CheckpointError(
              {.what = "a group of parameters that is not there",
               .values = fmt::format("{} of {}", flat, parameters_.size())});
        }
        add_names(result.back(), static_cast<std::size_t>(flat));
      }
    }
  });
  return result;
}

} // namespace cairn::checkpoints::deepspeed
