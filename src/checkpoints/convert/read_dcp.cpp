#include "checkpoints/convert/dcp.h"
#include "checkpoints/dcp/folder.h"
#include "checkpoints/dcp/titan.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/is_buffer.h"
#include "checkpoints/tensors/parameter_tensors.h"

#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

/// The model's parameters. A tensor beside them that the model does not have is
/// an error.
void read_titan(
    const dcp::Folder& saved,
    const model::ModelDescription& d,
    Portable& portable) {
  portable.description = d;
  NamedTensors tensors;
  std::set<std::string> taken;
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    tensors.emplace_back(
        parameter.name,
        dcp::titan_tensor(saved, d, parameter.name, "", ""));
    for (std::string& name : dcp::titan_names(saved, parameter.name)) {
      taken.insert(std::move(name));
    }
  }
  for (const auto& [name, info] : saved.metadata().tensors) {
    if (!dcp::is_training_state(name) && !taken.contains(name) &&
        !is_buffer(name, info.type)) {
      throw CheckpointError(
          {.what = "a tensor that this model does not have", .values = name});
    }
  }
  portable.parameters = parameter_tensors(d, tensors);
  portable.ties = model::model_ties(d);
}

/// Options of a parameter's group: each is an object of its own.
PythonValue options_of(const dcp::Folder& saved, const std::string& name) {
  const std::string prefix = fmt::format("optimizer.param_groups.{}.", name);
  const auto& objects = saved.metadata().objects;
  std::vector<PythonValue::Member> options;
  for (auto found = objects.lower_bound(prefix);
       found != objects.end() && found->first.starts_with(prefix);
       ++found) {
    options.emplace_back(
        found->first.substr(prefix.size()),
        saved.object(found->first));
  }
  return PythonValue::dict_of(std::move(options));
}

/// Adds a parameter to the group with its options, which are numbered in
/// `groups`.
void add_to_group(
    const PythonValue& options,
    const std::string& name,
    std::map<std::string, std::size_t>& groups,
    Portable& portable) {
  const auto [group, is_new] =
      groups.emplace(options.describe(), portable.groups.size());
  if (is_new) {
    portable.groups.push_back({.options = options});
  }
  portable.groups[group->second].names.push_back(name);
}

/// Adam's states. Parameters with the same options are one group.
void read_titan_optimizer(
    const dcp::Folder& saved,
    const model::ModelDescription& d,
    Portable& portable) {
  std::map<std::string, std::size_t> groups;
  for (const model::ModelParameter& parameter : model::model_parameters(d)) {
    const std::string theirs = dcp::titan_names(saved, parameter.name).front();
    for (const char* kind : {"exp_avg", "exp_avg_sq"}) {
      portable.optimizer_states.emplace_back(
          fmt::format("{}/{}", kind, parameter.name),
          dcp::titan_tensor(
              saved,
              d,
              parameter.name,
              "optimizer.state.",
              fmt::format(".{}", kind)));
    }
    portable.optimizer_states.emplace_back(
        "step/" + parameter.name,
        saved.tensor(fmt::format("optimizer.state.{}.step", theirs)));
    add_to_group(options_of(saved, theirs), parameter.name, groups, portable);
  }
}

/// The states of any model: of each parameter all that have its name.
void read_named_optimizer(const dcp::Folder& saved, Portable& portable) {
  const auto& tensors = saved.metadata().tensors;
  std::map<std::string, std::size_t> groups;
  for (const auto& [name, parameter] : portable.parameters) {
    const std::string prefix = fmt::format("optimizer.state.{}.", name);
    bool any = false;
    for (auto found = tensors.lower_bound(prefix);
         found != tensors.end() && found->first.starts_with(prefix);
         ++found) {
      const std::string kind = found->first.substr(prefix.size());
      if (kind.find('.') == kind.npos && kind.find('/') == kind.npos) {
        portable.optimizer_states.emplace_back(
            fmt::format("{}/{}", kind, name),
            saved.tensor(found->first));
        any = true;
      }
    }
    if (any) {
      add_to_group(options_of(saved, name), name, groups, portable);
    }
  }
}

} // namespace

Portable read_dcp(const ConvertOptions& options) {
  const fs::path place =
      options.tag.empty() ? options.input : options.input / options.tag;
  const auto folder = dcp::newest_step(place);
  if (!folder) {
    throw CheckpointError(
        {.what = "no checkpoint of torch.distributed.checkpoint",
         .where = place.string(),
         .values = "no .metadata, there or in a folder step-N"});
  }
  return in_file(*folder, [&] {
    const dcp::Folder saved(*folder);
    Portable portable;
    portable.steps = dcp::step_of(*folder).value_or(0);
    const auto d = dcp::is_titan(saved)
        ? dcp::titan_description(saved, options.megatron.args)
        : std::nullopt;
    bool has_states = false;
    for (const auto& [name, info] : saved.metadata().tensors) {
      has_states = has_states || dcp::is_training_state(name);
      if (!d && !dcp::is_training_state(name)) {
        auto& into =
            is_buffer(name, info.type) ? portable.buffers : portable.parameters;
        into.emplace_back(name, saved.tensor(name));
      }
    }
    if (d) {
      read_titan(saved, *d, portable);
    } else if (dcp::is_titan(saved)) {
      portable.unknown_model =
          "for torchtitan's Llama say what no tensor shows: "
          "--num-attention-heads, --max-position-embeddings, --rotary-base";
    }
    const bool adam = d &&
        saved.metadata().tensors.contains(
            "optimizer.state.tok_embeddings.weight.exp_avg");
    if (adam && !options.weights_only) {
      read_titan_optimizer(saved, *d, portable);
    } else if (!d && has_states && !options.weights_only) {
      read_named_optimizer(saved, portable);
    }
    if (has_states && portable.optimizer_states.empty()) {
      portable.left_out.push_back(
          d ? "optimizer states of another optimizer than Adam"
            : "optimizer states: they are not under the parameters' names");
    }
    return portable;
  });
}

} // namespace cairn::checkpoints
