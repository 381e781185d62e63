#include "checkpoints/deepspeed/tag_files.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace cairn::checkpoints::deepspeed {

namespace {

namespace fs = std::filesystem;

/// Numbers in a name, at the places of "#" in the pattern; nullopt if the name
/// does not fit.
std::optional<std::vector<int>> numbers(
    std::string_view name,
    std::string_view pattern) {
  std::vector<int> result;
  while (!pattern.empty()) {
    if (pattern.front() == '#') {
      int number = 0;
      const auto [end, error] =
          std::from_chars(name.data(), name.data() + name.size(), number);
      if (error != std::errc() || name.starts_with('-')) {
        return std::nullopt;
      }
      result.push_back(number);
      name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    } else if (name.empty() || name.front() != pattern.front()) {
      return std::nullopt;
    } else {
      name.remove_prefix(1);
    }
    pattern.remove_prefix(1);
  }
  return name.empty() ? std::optional(std::move(result)) : std::nullopt;
}

constexpr std::string_view expert_file =
    "layer_#_expert_#_mp_rank_#_model_states.pt";

void sort_in(TagFiles& files, const fs::path& path) {
  const std::string name = path.filename().string();
  if (const auto found = numbers(name, expert_file)) {
    const std::array<int, 3> place{(*found)[2], (*found)[0], (*found)[1]};
    files.experts.emplace(place, path);
    return;
  }
  if (const auto found = numbers(name, "mp_rank_#_model_states.pt")) {
    files.models.emplace((*found)[0], path);
    return;
  }
  const auto put = [&](TagFiles::ByRanks& into, std::string_view pattern) {
    if (const auto found = numbers(name, pattern)) {
      const auto [there, is_new] =
          into.emplace(std::pair((*found)[1], (*found)[0]), path);
      if (!is_new) {
        throw CheckpointError(
            {.what = "two files of one rank",
             .where = path.string(),
             .values = there->second.filename().string(),
             .remedy = "remove the one of the older save"});
      }
    }
  };
  put(files.expert_optimizers, "expp_rank_#_mp_rank_#_optim_states.pt");
  put(files.layers, "layer_#-model_#-model_states.pt");
  put(files.zero_models, "zero_pp_rank_#_mp_rank_#_model_states.pt");
  for (const std::string_view kind : {"", "bf16_", "fp16_"}) {
    for (const std::string_view dash : {"_", ""}) { // old versions have none
      put(files.optimizers,
          fmt::format(
              "{}zero_pp_rank_#_mp_rank_#{}optim_states.pt",
              kind,
              dash));
    }
  }
}

/// The file that names the newest checkpoint, or the newest universal one.
fs::path latest_file(const fs::path& folder) {
  std::error_code error;
  const fs::path latest = folder / "latest";
  return fs::exists(latest, error) ? latest : folder / "latest_universal";
}

std::string latest_tag(const fs::path& file) {
  std::string tag = read_file(file, 4096);
  while (!tag.empty() && (tag.back() == '\n' || tag.back() == ' ')) {
    tag.pop_back();
  }
  if (tag.empty() || tag == "." || tag == ".." ||
      tag.find('/') != std::string::npos ||
      tag.find('\0') != std::string::npos) {
    throw CheckpointError(
        {.what = "names no folder beside it", .where = file.string()});
  }
  return tag;
}

} // namespace

bool is_expert_file(const fs::path& path) {
  return numbers(path.filename().string(), expert_file).has_value();
}

TagFiles tag_files(const fs::path& folder, const std::string& tag) {
  TagFiles files;
  files.tag = tag;
  std::error_code error;
  const fs::path latest = latest_file(folder);
  if (files.tag.empty() && fs::exists(latest, error)) {
    files.tag = latest_tag(latest);
  }
  files.folder = files.tag.empty() ? folder : folder / files.tag;
  for (fs::directory_iterator entry(files.folder, error), end;
       !error && entry != end;
       entry.increment(error)) {
    sort_in(files, entry->path());
  }
  if (error) {
    throw CheckpointError(
        {.what = "cannot be listed",
         .where = files.folder.string(),
         .values = error.message()});
  }
  if (files.models.empty() && files.zero_models.empty()) {
    throw CheckpointError(
        {.what = "no checkpoint of DeepSpeed's",
         .where = files.folder.string(),
         .values = "there is no *mp_rank_00_model_states.pt",
         .remedy = "name the folder with the file `latest`, or a tag"});
  }
  return files;
}

std::vector<fs::path> of_rank(const TagFiles::ByRanks& files, int model_rank) {
  std::vector<fs::path> result;
  for (const auto& [ranks, path] : files) {
    if (ranks.first != model_rank) {
      continue;
    }
    if (ranks.second != static_cast<int>(result.size())) {
      throw CheckpointError(
          {.what = fmt::format("the file of rank {} is missing", result.size()),
           .where = path.parent_path().string(),
           .values = fmt::format("there is {}", path.filename().string())});
    }
    result.push_back(path);
  }
  return result;
}

} // namespace cairn::checkpoints::deepspeed
