#include "checkpoints/convert/dcp.h"
#include "checkpoints/dcp/titan.h"
#include "checkpoints/dcp/write.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <cairn/base/error.h>
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

/// A parameter's tensors, or those of a state of its shape, under the names of
/// the output.
NamedTensors parts_of(
    const Portable& portable,
    const std::string& name,
    const LazyTensor& tensor) {
  return has_titan_names(portable)
      ? dcp::titan_parts(*portable.description, name, tensor)
      : NamedTensors{{name, tensor}};
}

/// Collects the tensors, each in one chunk. Names must be different.
class Collection {
 public:
  void add(std::string name, LazyTensor tensor) {
    if (!taken_.insert(name).second) {
      throw ConfigError(
          {.what = "two tensors of the output have one name",
           .values = name,
           .remedy = "convert with --weights-only"});
    }
    dcp::NewTensor made{.name = std::move(name), .shape = tensor.shape};
    made.chunks.emplace_back(
        std::vector<std::int64_t>(tensor.shape.size()),
        std::move(tensor));
    tensors_.push_back(std::move(made));
  }
  const std::vector<dcp::NewTensor>& tensors() const { return tensors_; }

 private:
  std::set<std::string> taken_;
  std::vector<dcp::NewTensor> tensors_;
};

/// The group's options with those that torch's Adam has beside them: it looks
/// for all of its own.
PythonValue as_of_torch(const PythonValue& options) {
  const auto no = PythonValue::boolean(false);
  std::vector<PythonValue::Entry> entries = options.entries();
  const std::vector<PythonValue::Member> defaults{
      {"lr", PythonValue::real(1e-3)},
      {"betas",
       PythonValue::tuple({PythonValue::real(0.9), PythonValue::real(0.999)})},
      {"eps", PythonValue::real(1e-8)},
      {"weight_decay", PythonValue::real(0)},
      {"amsgrad", no},
      {"maximize", no},
      {"foreach", PythonValue()},
      {"capturable", no},
      {"differentiable", no},
      {"fused", PythonValue()},
      {"decoupled_weight_decay", PythonValue::boolean(true)},
      {"initial_lr", options.find("lr").value_or(PythonValue::real(1e-3))}};
  for (const auto& [name, value] : defaults) {
    if (!options.find(name)) {
      entries.emplace_back(PythonValue::text(name), value);
    }
  }
  return PythonValue::dict(std::move(entries));
}

/// Adds the states, each under the name of its parameter, and the options of
/// its group, each an object.
void add_optimizer(
    const Portable& portable,
    Collection& tensors,
    std::vector<PythonValue::Member>& objects) {
  const auto states =
      states_by_parameter(portable.groups, portable.optimizer_states);
  std::map<std::string, LazyTensor> parameters(
      portable.parameters.begin(),
      portable.parameters.end());
  std::vector<std::string> kinds = state_kinds(portable);
  std::erase(kinds, "step");
  const bool adam = kinds == std::vector<std::string>{"exp_avg", "exp_avg_sq"};
  for (const StoredGroup& group : portable.groups) {
    const PythonValue options =
        adam ? as_of_torch(group.options) : group.options;
    for (const std::string& name : group.names) {
      const auto parameter = parameters.find(name);
      if (parameter == parameters.end()) {
        throw ConfigError(
            {.what = "a group has a parameter that is not there",
             .values = name});
      }
      const NamedTensors parts = parts_of(portable, name, parameter->second);
      for (const auto& [kind, tensor] : states.at(name)) {
        const bool like = tensor.shape == parameter->second.shape;
        const NamedTensors cut =
            like ? parts_of(portable, name, tensor) : NamedTensors();
        for (std::size_t i = 0; i < parts.size(); ++i) {
          tensors.add(
              fmt::format("optimizer.state.{}.{}", parts[i].first, kind),
              like ? cut[i].second : tensor);
        }
      }
      for (const auto& [part, tensor] : parts) {
        for (const auto& [key, value] : options.entries()) {
          if (key.is(PythonValue::Kind::text)) {
            objects.emplace_back(
                fmt::format("optimizer.param_groups.{}.{}", part, key.text()),
                value);
          }
        }
      }
    }
  }
}

} // namespace

bool has_titan_names(const Portable& portable) {
  return portable.description &&
      portable.description->family == model::ModelFamily::llama &&
      !portable.description->experts;
}

void write_dcp(
    const fs::path& folder,
    const Portable& portable,
    const ConvertOptions& options) {
  if (has_titan_names(portable)) {
    dcp::check_titan(*portable.description);
  }
  Collection tensors;
  std::vector<PythonValue::Member> objects;
  for (const auto& [name, tensor] : portable.parameters) {
    for (auto& [part, values] : parts_of(portable, name, tensor)) {
      tensors.add(
          part,
          options.type && c10::isFloatingType(values.type)
              ? as_type(std::move(values), *options.type)
              : values);
    }
  }
  for (const auto& [name, tensor] : portable.buffers) {
    tensors.add(name, tensor);
  }
  if (!portable.optimizer_states.empty()) {
    add_optimizer(portable, tensors, objects);
  }
  objects.emplace_back(
      "train_state.step",
      PythonValue::integer(portable.steps));
  objects.emplace_back("train_state.ntokens_seen", PythonValue::integer(0));
  objects.emplace_back(
      "lr_scheduler.last_epoch",
      PythonValue::integer(portable.steps - portable.skipped_steps));
  dcp::write_dcp(
      folder / fmt::format("step-{}", portable.steps),
      tensors.tensors(),
      objects);
}

} // namespace cairn::checkpoints
