#include "checkpoints/torch/optimizer_state_dict.h"

#include "checkpoints/tensors/named_tensors.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace cairn::checkpoints {

namespace {

using Kind = PythonValue::Kind;
using Shape = std::vector<std::int64_t>;

[[noreturn]] void unnamed(std::string why) {
  throw CheckpointError(
      {.what = "which parameter an optimizer's state belongs to is not clear",
       .values = std::move(why),
       .remedy = "give the names of the parameters in the optimizer's order"});
}

/// The numbers of the parameters of each group.
std::vector<std::vector<std::int64_t>> numbers_of(
    const PythonValue& state_dict) {
  std::vector<std::vector<std::int64_t>> result;
  for (const PythonValue& group : state_dict.at("param_groups").items()) {
    auto& numbers = result.emplace_back();
    for (const PythonValue& number : group.at("params").items()) {
      numbers.push_back(number.integer());
    }
  }
  return result;
}

/// The shape of a parameter, from states that have the same shape.
std::optional<Shape> shape_of(const PythonValue& state) {
  for (const char* kind : {"exp_avg", "momentum_buffer", "exp_avg_sq", "sum"}) {
    if (const auto value = state.find(kind); value && value->is(Kind::tensor)) {
      return value->stored().sizes;
    }
  }
  return std::nullopt;
}

/// Takes the names that torch's optimizers keep if they were given any.
bool take_own_names(
    const PythonValue& state_dict,
    std::vector<StoredGroup>& groups) {
  const auto saved = state_dict.at("param_groups").items();
  for (std::size_t g = 0; g < saved.size(); ++g) {
    const auto names = saved[g].find("param_names");
    if (!names || names->is_none() ||
        names->size() != saved[g].at("params").size()) {
      return false;
    }
    groups[g].names.clear();
    for (const PythonValue& name : names->items()) {
      groups[g].names.push_back(name.text());
    }
  }
  return true;
}

class Namer {
 public:
  Namer(const PythonValue& state_dict, std::vector<StoredGroup>& groups)
      : groups_(groups), numbers_(numbers_of(state_dict)) {
    for (const auto& [number, state] : by_number(state_dict.at("state"))) {
      shapes_.emplace(number, shape_of(state));
    }
    for (const auto& numbers : numbers_) {
      count_ += numbers.size();
    }
  }

  std::size_t count() const { return count_; }

  void name_in_order(const std::vector<std::string>& order) {
    std::size_t next = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t i = 0; i < numbers_[g].size(); ++i) {
        groups_[g].names.push_back(order.at(next++));
      }
    }
  }

  /// Names parameters by shape: each parameter of the model is the next one of
  /// the only group where its shape fits.
  void name_by_shape(const NamedTensors& model) {
    for (const auto& [name, tensor] : model) {
      std::vector<std::size_t> fits;
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (fits_next(g, tensor.shape)) {
          fits.push_back(g);
        }
      }
      if (fits.size() != 1) {
        unnamed(fmt::format("{} fits in {} groups", name, fits.size()));
      }
      groups_[fits.front()].names.push_back(name);
    }
  }

 private:
  bool fits_next(std::size_t g, const Shape& shape) const {
    const std::size_t next = groups_[g].names.size();
    if (next >= numbers_[g].size()) {
      return false;
    }
    const auto known = shapes_.find(numbers_[g][next]);
    return known == shapes_.end() || !known->second || *known->second == shape;
  }

  std::vector<StoredGroup>& groups_;
  std::vector<std::vector<std::int64_t>> numbers_;
  std::map<std::int64_t, std::optional<Shape>> shapes_;
  std::size_t count_ = 0;
};

} // namespace

std::map<std::int64_t, PythonValue> by_number(const PythonValue& dict) {
  std::map<std::int64_t, PythonValue> result;
  for (auto& [key, value] : dict.entries()) {
    result.insert_or_assign(key.integer(), value);
  }
  return result;
}

PythonValue group_options(const PythonValue& group) {
  std::vector<PythonValue::Entry> kept;
  for (auto& entry : group.entries()) {
    if (entry.first.text() != "params" && entry.first.text() != "param_names") {
      kept.push_back(entry);
    }
  }
  return PythonValue::dict(std::move(kept));
}

PythonValue group_dict(const StoredGroup& group, std::int64_t first_number) {
  std::vector<PythonValue::Entry> entries = group.options.entries();
  std::vector<PythonValue> numbers;
  for (std::size_t i = 0; i < group.names.size(); ++i) {
    numbers.push_back(
        PythonValue::integer(first_number + static_cast<std::int64_t>(i)));
  }
  entries.emplace_back(
      PythonValue::text("params"),
      PythonValue::list(std::move(numbers)));
  return PythonValue::dict(std::move(entries));
}

std::optional<LazyTensor> state_tensor(const PythonValue& value) {
  const auto scalar = [](at::ScalarType type, double number) {
    return LazyTensor{type, {}, [=] {
                        return at::scalar_tensor(number, type);
                      }};
  };
  switch (value.kind()) {
    case Kind::tensor:
      return lazy_tensor(value);
    case Kind::integer:
      return LazyTensor{at::kLong, {}, [number = value.integer()] {
                          return at::scalar_tensor(number, at::kLong);
                        }};
    case Kind::boolean:
      return scalar(at::kBool, value.boolean() ? 1 : 0);
    case Kind::real:
      return scalar(at::kDouble, value.real());
    default:
      return std::nullopt;
  }
}

std::vector<StoredGroup> name_groups(
    const PythonValue& state_dict,
    const NamedTensors& model,
    const std::vector<std::string>& order) {
  std::vector<StoredGroup> groups;
  for (const PythonValue& group : state_dict.at("param_groups").items()) {
    groups.push_back({.options = group_options(group)});
  }
  Namer namer(state_dict, groups);
  if (!order.empty()) {
    if (order.size() != namer.count()) {
      unnamed(fmt::format(
          "{} names are given, the optimizer has {} parameters",
          order.size(),
          namer.count()));
    }
    namer.name_in_order(order);
  } else if (!take_own_names(state_dict, groups)) {
    if (model.size() != namer.count()) {
      unnamed(fmt::format(
          "the model has {} parameters, the optimizer {}",
          model.size(),
          namer.count()));
    }
    namer.name_by_shape(model);
  }
  return groups;
}

NamedTensors optimizer_states(
    const PythonValue& state_dict,
    const std::vector<StoredGroup>& groups) {
  const auto states = by_number(state_dict.at("state"));
  const auto numbers = numbers_of(state_dict);
  NamedTensors result;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 0; i < groups[g].names.size(); ++i) {
      const auto state = states.find(numbers[g][i]);
      if (state == states.end()) {
        continue; // the parameter never had a gradient
      }
      for (const auto& [kind, value] : state->second.entries()) {
        if (auto tensor = state_tensor(value)) {
          result.emplace_back(
              fmt::format("{}/{}", kind.text(), groups[g].names[i]),
              *std::move(tensor));
        }
      }
    }
  }
  return result;
}

std::map<std::string, NamedTensors> states_by_parameter(
    const std::vector<StoredGroup>& groups,
    const NamedTensors& states) {
  std::map<std::string, NamedTensors> result;
  for (const StoredGroup& group : groups) {
    for (const std::string& name : group.names) {
      result[name];
    }
  }
  for (const auto& [name, tensor] : states) {
    const std::size_t slash = name.find('/');
    const auto found = slash == std::string::npos
        ? result.end()
        : result.find(name.substr(slash + 1));
    if (found == result.end()) {
      throw CheckpointError(
          {.what = "a state of a parameter that is in no group",
           .values = name});
    }
    found->second.emplace_back(name.substr(0, slash), tensor);
  }
  return result;
}

PythonValue optimizer_state_dict(
    const std::vector<StoredGroup>& groups,
    const NamedTensors& states) {
  const auto by_name = states_by_parameter(groups, states);
  std::vector<PythonValue::Entry> saved;
  std::vector<PythonValue> saved_groups;
  std::int64_t number = 0;
  for (const StoredGroup& group : groups) {
    saved_groups.push_back(group_dict(group, number));
    for (const std::string& name : group.names) {
      if (const NamedTensors& own = by_name.at(name); !own.empty()) {
        saved.emplace_back(PythonValue::integer(number), dict_of_tensors(own));
      }
      ++number;
    }
  }
  return PythonValue::dict_of(
      {{"state", PythonValue::dict(std::move(saved))},
       {"param_groups", PythonValue::list(std::move(saved_groups))}});
}

} // namespace cairn::checkpoints
