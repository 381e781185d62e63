#include "checkpoints/inspect/views.h"
#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/internal/native_source.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

/// The checkpoint that loading takes; the notes say why not another.
fs::path choose(const fs::path& folder, std::vector<std::string>& notes) {
  const auto found = find_checkpoints(folder);
  for (const std::string& tag : load_order(
           folder,
           [&](const std::string& problem) { notes.push_back(problem); })) {
    const auto one = std::ranges::find(found, tag, &FoundCheckpoint::tag);
    if (one != found.end() && one->problem.empty()) {
      return folder / tag;
    }
    notes.push_back(fmt::format(
        "{} is not complete: {}",
        tag,
        one == found.end() ? "it has no manifest.json" : one->problem));
  }
  throw CheckpointError(
      {.what = "no checkpoint in this folder is complete",
       .where = folder.string(),
       .values = notes.empty() ? "" : notes.front()});
}

/// The name without its kind, for tensors that a model's state_dict has.
std::string_view without_kind(std::string_view name) {
  for (const std::string_view kind : {"weight/", "buffer/"}) {
    if (name.starts_with(kind)) {
      return name.substr(kind.size());
    }
  }
  return name;
}

} // namespace

CheckpointView view_native(const fs::path& folder) {
  CheckpointView view;
  view.place =
      fs::exists(folder / manifest_name) ? folder : choose(folder, view.notes);
  const auto source = std::make_shared<const NativeSource>(view.place);
  const Manifest& manifest = source->manifest();
  view.state = {{"step", manifest.step}};
  view.about = {{"tag", manifest.tag}, {"saved", utc_time(manifest.saved_at)}};
  for (const auto& [key, value] : manifest.state.items()) {
    const bool layout = key == "ranks" || key == "zero_stage" || key == "mesh";
    (layout ? view.about : view.state)[key] = value;
  }
  std::uint64_t bytes = 0;
  for (const ManifestFile& file : manifest.files) {
    bytes += file.bytes;
  }
  view.about["writers"] = manifest.files.size();
  view.about["file_bytes"] = bytes;
  view.config = manifest.config;
  view.ties = manifest.ties;
  for (const auto& [stored, tensor] : manifest.tensors) {
    const std::string name(without_kind(stored));
    (name == stored ? view.states : view.weights)
        .emplace_back(name, lazy_tensor(source, stored));
    view.slices[name] = tensor.slices.size();
  }
  return view;
}

} // namespace cairn::checkpoints
