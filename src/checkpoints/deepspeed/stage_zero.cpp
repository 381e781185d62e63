#include "checkpoints/deepspeed/stage_zero.h"

#include "checkpoints/deepspeed/flat_optimizer.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <map>
#include <utility>

namespace cairn::checkpoints::deepspeed {

namespace {

/// torch's own optimizer, or DeepSpeed's 16-bit one around it with fp32 copies
/// of the parameters.
class NumberedOptimizer final : public SavedOptimizer {
 public:
  NumberedOptimizer(
      PythonValue state_dict,
      std::vector<PythonValue> fp32_groups,
      std::vector<StoredGroup> groups)
      : state_dict_(std::move(state_dict)),
        fp32_groups_(std::move(fp32_groups)),
        groups_(std::move(groups)) {}

  NamedTensors weights() const override {
    NamedTensors result;
    for (std::size_t g = 0; g < fp32_groups_.size(); ++g) {
      const auto tensors = fp32_groups_[g].items();
      if (g >= groups_.size() || tensors.size() != groups_[g].names.size()) {
        throw CheckpointError(
            {.what = "the optimizer's weights do not fit its groups"});
      }
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        result.emplace_back(groups_[g].names[i], lazy_tensor(tensors[i]));
      }
    }
    return result;
  }
  NamedTensors states() const override {
    return optimizer_states(state_dict_, groups_);
  }
  std::vector<StoredGroup> groups() const override { return groups_; }

 private:
  PythonValue state_dict_;
  std::vector<PythonValue> fp32_groups_;
  std::vector<StoredGroup> groups_;
};

/// Shapes by group: the parameters one after the other fill the flat tensors.
ShapeGroups in_groups(
    const std::vector<PythonValue>& tensors,
    const NamedTensors& parameters,
    const std::vector<std::string>& order) {
  if (tensors.size() != 1 && order.empty()) {
    throw CheckpointError(
        {.what = "which parameters are in which group is not saved",
         .values = fmt::format("{} groups", tensors.size()),
         .remedy = "give their names in the optimizer's order"});
  }
  std::map<std::string, Shape> shapes;
  std::vector<std::string> names = order;
  for (const auto& [name, tensor] : parameters) {
    shapes.emplace(name, tensor.shape);
    if (order.empty()) {
      names.push_back(name);
    }
  }
  ShapeGroups result(tensors.size());
  std::size_t group = 0;
  std::int64_t filled = 0;
  for (const std::string& name : names) {
    const auto shape = shapes.find(name);
    if (shape == shapes.end()) {
      throw CheckpointError(
          {.what = "no parameter of that name", .values = name});
    }
    if (group + 1 < tensors.size() &&
        filled >= elements_of(tensors[group].stored().sizes)) {
      ++group;
      filled = 0;
    }
    result[group].emplace_back(name, shape->second);
    filled += elements_of(shape->second);
  }
  return result;
}

} // namespace

std::shared_ptr<const SavedOptimizer> stage_zero_optimizer(
    const PythonValue& optimizer,
    const NamedTensors& parameters,
    const std::vector<std::string>& order,
    const std::filesystem::path& file) {
  if (optimizer.is_none()) {
    return nullptr;
  }
  if (const auto flat = optimizer.find("fp32_groups_flat")) {
    return std::make_shared<FlatOptimizer>(
        FlatKeys{"fp32_groups_flat", "optimizer_state_dict"},
        in_groups(flat->items(), parameters, order),
        std::vector{optimizer},
        std::vector{file});
  }
  const PythonValue state_dict = optimizer.find("state")
      ? optimizer
      : optimizer.at("optimizer_state_dict");
  const auto fp32_groups = optimizer.find("fp32_groups");
  return std::make_shared<NumberedOptimizer>(
      state_dict,
      fp32_groups ? fp32_groups->items() : std::vector<PythonValue>(),
      name_groups(state_dict, parameters, order));
}

} // namespace cairn::checkpoints::deepspeed
