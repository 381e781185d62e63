#include "checkpoints/dcp/folder.h"
#include "checkpoints/inspect/views.h"
#include "checkpoints/tensors/in_file.h"

#include <cairn/base/error.h>

namespace cairn::checkpoints {

CheckpointView view_dcp(const std::filesystem::path& folder) {
  const auto newest = dcp::newest_step(folder);
  CheckpointView view{.place = newest.value_or(folder)};
  view.about = {{"tag", view.place.filename().string()}};
  if (const auto step = dcp::step_of(view.place)) {
    view.state["step"] = *step;
  }
  const dcp::Folder saved(view.place);
  for (const auto& [name, info] : saved.metadata().tensors) {
    auto& into = dcp::is_training_state(name) ? view.states : view.weights;
    into.emplace_back(name, saved.tensor(name));
  }
  for (const auto& [name, piece] : saved.metadata().objects) {
    try {
      view.state[name] = facts_of(saved.object(name));
    } catch (const CheckpointError& error) {
      view.notes.push_back(error.what());
    }
  }
  return view;
}

} // namespace cairn::checkpoints
