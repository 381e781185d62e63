#include <cairn/checkpoints/torch_file.h>

#include "checkpoints/tensors/is_buffer.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/tensors/tied_names.h"
#include "checkpoints/torch/optimizer_state_dict.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

namespace cairn::checkpoints {

namespace {

using Kind = PythonValue::Kind;

/// The first of these keys that holds a dict; empty if none does.
std::string key_of(
    const PythonValue& file,
    std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const auto found = file.find(key); found && found->is(Kind::dict)) {
      return key;
    }
  }
  return "";
}

bool is_state_dict(const PythonValue& file) {
  return std::ranges::any_of(file.entries(), [](const auto& entry) {
    return entry.first.is(Kind::text) && entry.second.is(Kind::tensor);
  });
}

PythonValue without(
    const PythonValue& dict,
    const std::set<std::string>& keys) {
  std::vector<PythonValue::Entry> kept;
  for (const auto& entry : dict.entries()) {
    if (!entry.first.is(Kind::text) || !keys.contains(entry.first.text())) {
      kept.push_back(entry);
    }
  }
  return PythonValue::dict(std::move(kept));
}

TorchCheckpoint read(
    const PythonValue& file,
    const std::vector<std::string>& order) {
  const std::string model_key =
      key_of(file, {"model", "model_state_dict", "state_dict"});
  if (model_key.empty() && !is_state_dict(file)) {
    throw CheckpointError(
        {.what = "no model in it", .values = file.describe(1)});
  }
  const PythonValue model = model_key.empty() ? file : file.at(model_key);
  TorchCheckpoint result{
      .weights = named_tensors(model),
      .ties = tied_names(model)};
  if (model_key.empty()) {
    return result;
  }
  const std::string optimizer_key =
      key_of(file, {"optimizer", "optimizer_state_dict"});
  result.rest = without(file, {model_key, optimizer_key});
  if (!optimizer_key.empty()) {
    std::set<std::string> tied;
    for (const Tie& tie : result.ties) {
      tied.insert(tie.first);
    }
    NamedTensors parameters = result.weights;
    std::erase_if(parameters, [&](const auto& named) {
      return tied.contains(named.first) ||
          is_buffer(named.first, named.second.type);
    });
    const PythonValue optimizer = file.at(optimizer_key);
    result.groups = name_groups(optimizer, parameters, order);
    result.optimizer_states = optimizer_states(optimizer, result.groups);
  }
  return result;
}

} // namespace

TorchCheckpoint read_torch_checkpoint(
    const std::filesystem::path& path,
    const std::vector<std::string>& order) {
  const PythonValue file = read_torch_file(path);
  try {
    return read(file, order);
  } catch (const CheckpointError& error) {
    Problem problem = error.problem();
    problem.where = problem.where.empty()
        ? path.string()
        : fmt::format("{}: {}", path.string(), problem.where);
    throw CheckpointError(std::move(problem));
  }
}

void write_torch_checkpoint(
    const std::filesystem::path& path,
    const TorchCheckpoint& checkpoint) {
  const std::map<std::string, std::string> ties(
      checkpoint.ties.begin(),
      checkpoint.ties.end());
  std::map<std::string, PythonValue> known;
  for (const auto& [name, tensor] : checkpoint.weights) {
    known.emplace(name, PythonValue::tensor(tensor));
  }
  std::vector<PythonValue::Member> model;
  for (const auto& [name, tensor] : checkpoint.weights) {
    const auto tie = ties.find(name);
    const auto holder = known.find(tie == ties.end() ? name : tie->second);
    if (holder == known.end()) {
      throw CheckpointError(
          {.what = "a name is tied to one that is not there",
           .where = path.string(),
           .values = fmt::format("{} to {}", name, tie->second)});
    }
    model.emplace_back(name, holder->second);
  }
  std::vector<PythonValue::Entry> members{
      {PythonValue::text("model"), PythonValue::dict_of(std::move(model))}};
  if (!checkpoint.groups.empty()) {
    members.emplace_back(
        PythonValue::text("optimizer"),
        optimizer_state_dict(checkpoint.groups, checkpoint.optimizer_states));
  }
  for (auto& entry : checkpoint.rest.entries()) {
    members.push_back(entry);
  }
  write_torch_file(path, PythonValue::dict(std::move(members)));
}

} // namespace cairn::checkpoints
