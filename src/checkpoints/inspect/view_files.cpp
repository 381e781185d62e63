// Views of single files, written by torch.save or safetensors.

#include "checkpoints/inspect/views.h"
#include "checkpoints/tensors/named_tensors.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/safetensors.h>
#include <cairn/checkpoints/torch_file.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace cairn::checkpoints {

namespace fs = std::filesystem;

namespace {

using Kind = PythonValue::Kind;

/// Members of a dict that are not tensors.
Facts facts_beside_tensors(const PythonValue& dict) {
  Facts facts = Facts::object();
  for (const auto& [key, member] : dict.entries()) {
    if (!member.is(Kind::tensor)) {
      facts[key.is(Kind::text) ? key.text() : key.describe(0)] =
          facts_of(member);
    }
  }
  return facts;
}

bool has_tensors(const PythonValue& dict) {
  return std::ranges::any_of(dict.entries(), [](const auto& entry) {
    return entry.second.is(Kind::tensor);
  });
}

} // namespace

CheckpointView view_torch(const fs::path& file) {
  CheckpointView view{.place = file};
  const PythonValue value = read_torch_file(file);
  if (!value.is(Kind::dict)) {
    if (value.is(Kind::tensor)) {
      view.weights.emplace_back("tensor", lazy_tensor(value));
    } else {
      view.state["value"] = facts_of(value);
    }
    return view;
  }
  try {
    TorchCheckpoint checkpoint = read_torch_checkpoint(file);
    view.weights = std::move(checkpoint.weights);
    view.states = std::move(checkpoint.optimizer_states);
    view.ties = std::move(checkpoint.ties);
    view.state = has_tensors(value) ? facts_beside_tensors(value)
                                    : facts_of(checkpoint.rest);
    drop_ties(view.weights, view.ties);
  } catch (const CheckpointError& error) {
    // The file holds something else, or an optimizer whose states have no
    // names.
    view.notes.push_back(error.what());
    view.weights = named_tensors(value);
    view.state = facts_beside_tensors(value);
  }
  return view;
}

CheckpointView view_safetensors(const fs::path& path) {
  CheckpointView view{.place = path};
  const auto file = std::make_shared<const SafetensorsFile>(path);
  if (!file->metadata().empty()) {
    view.about["metadata"] = file->metadata();
  }
  for (const auto& [name, entry] : file->entries()) {
    view.weights.emplace_back(name, lazy_tensor(file, name));
  }
  return view;
}

} // namespace cairn::checkpoints
