#include "checkpoints/megatron/rank_files.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

namespace cairn::checkpoints::megatron {

namespace {

namespace fs = std::filesystem;

// Megatron once wrote "model_rng.pt", with several optimizer files beside it.
constexpr std::array<const char*, 2> file_names{
    "model_optim_rng.pt",
    "model_rng.pt"};
constexpr std::string_view deepspeed_ending = "_model_states.pt";

struct Rank {
  std::int64_t expert = 0;
  std::int64_t stage = 0;
  std::int64_t tensor = 0;
  auto operator<=>(const Rank&) const = default;
};

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool whole = error == std::errc() && rest == end && !text.empty();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

/// The rank of "mp_rank_01", "mp_rank_01_002" or, where ranks divide experts as
/// well, "mp_rank_01_002_003"; `staged` says if it is the first.
std::optional<Rank> rank_of(std::string_view name, bool& staged) {
  constexpr std::string_view begin = "mp_rank_";
  if (!name.starts_with(begin)) {
    return std::nullopt;
  }
  name.remove_prefix(begin.size());
  const auto bar = name.find('_');
  staged = bar != std::string_view::npos;
  const auto tensor = number(name.substr(0, bar));
  const std::string_view rest = staged ? name.substr(bar + 1) : "0";
  const auto second = rest.find('_');
  const auto stage = number(rest.substr(0, second));
  const auto expert = second == rest.npos ? 0 : number(rest.substr(second + 1));
  // Numbers beyond any cluster are not ranks.
  if (!tensor || !stage || !expert || *tensor > 9999 || *stage > 9999 ||
      *expert > 9999) {
    return std::nullopt;
  }
  return Rank{*expert, *stage, *tensor};
}

struct Found {
  std::map<Rank, fs::path> files;
  bool staged = false;
  bool both = false;
};

Found ranks_in(const fs::path& folder) {
  Found found;
  // A folder that is missing or unreadable has no ranks.
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    fs::path file;
    std::error_code unreadable; // such as a link that leads in a circle
    if (entry.is_directory(unreadable)) {
      for (const char* candidate : file_names) {
        if (file.empty() && fs::exists(entry.path() / candidate, unreadable)) {
          file = entry.path() / candidate;
        }
      }
    } else if (name.ends_with(deepspeed_ending)) {
      name.resize(name.size() - deepspeed_ending.size());
      file = entry.path();
    }
    bool staged = false;
    const auto rank = rank_of(name, staged);
    if (!rank || file.empty()) {
      continue;
    }
    found.both = found.both || (!found.files.empty() && staged != found.staged);
    found.staged = staged;
    found.both = !found.files.emplace(*rank, file).second || found.both;
  }
  return found;
}

std::string tracker_text(const fs::path& path) {
  std::string text = read_file(path, 4096);
  const auto space = [](char c) { return c == ' ' || (c >= 9 && c <= 13); };
  std::erase_if(text, space);
  return text;
}

/// The file in which DeepSpeed names its newest checkpoint, or the newest
/// universal one.
fs::path latest_file(const fs::path& folder) {
  const fs::path latest = folder / "latest";
  return fs::exists(latest) ? latest : folder / "latest_universal";
}

/// The folder that the tracker file names, or DeepSpeed's `latest`, or the
/// folder itself.
CheckpointPlace newest(const fs::path& folder) {
  const fs::path tracker = folder / tracker_file;
  const fs::path latest = latest_file(folder);
  if (fs::exists(tracker)) {
    const std::string text = tracker_text(tracker);
    const auto iteration = number(text);
    if (!iteration && text != "release") {
      throw CheckpointError(
          {.what = "neither a number nor \"release\"",
           .where = tracker.string(),
           .values = text.substr(0, 80)});
    }
    const fs::path named = folder / iteration_folder(iteration);
    // Megatron-DeepSpeed writes both files, and no folder of this name.
    if (fs::exists(named) || !fs::exists(latest)) {
      return {named, iteration};
    }
  }
  if (fs::exists(latest)) {
    const std::string tag = tracker_text(latest);
    if (tag.empty() || fs::path(tag).filename() != tag || tag == "..") {
      throw CheckpointError(
          {.what = "not the name of a folder beside it",
           .where = latest.string(),
           .values = tag.substr(0, 80)});
    }
    return {folder / tag, std::nullopt};
  }
  const std::string name = folder.filename().string();
  return {
      folder,
      name.starts_with("iter_") ? number(name.substr(5)) : std::nullopt};
}

} // namespace

std::string iteration_folder(std::optional<std::int64_t> iteration) {
  return iteration ? fmt::format("iter_{:07}", *iteration) : "release";
}

std::string rank_folder(const FileRank& rank, const MegatronSplit& split) {
  std::string name = fmt::format("mp_rank_{:02}", rank.tensor);
  if (split.pipeline > 1) {
    name += fmt::format("_{:03}", rank.stage);
  }
  if (split.expert > 1) {
    name += fmt::format("_{:03}", rank.expert);
  }
  return name;
}

bool has_ranks(const fs::path& folder) {
  return !ranks_in(folder).files.empty();
}

CheckpointPlace find_place(
    const fs::path& folder,
    std::optional<std::int64_t> iteration) {
  return iteration
      ? CheckpointPlace{folder / iteration_folder(iteration), iteration}
      : newest(folder);
}

RankFiles find_rank_files(const CheckpointPlace& place) {
  Found found = ranks_in(place.folder);
  if (found.files.empty()) {
    throw CheckpointError(
        {.what = "no checkpoint of Megatron's: no mp_rank_00",
         .where = place.folder.string()});
  }
  if (found.both) {
    throw CheckpointError(
        {.what = "two checkpoints in one folder: with and without pipeline "
                 "stages",
         .where = place.folder.string()});
  }
  RankFiles result{.iteration = place.iteration};
  for (const auto& [rank, path] : found.files) {
    result.tensor = std::max(result.tensor, rank.tensor + 1);
    result.pipeline = std::max(result.pipeline, rank.stage + 1);
    result.expert = std::max(result.expert, rank.expert + 1);
  }
  const auto count = result.tensor * result.pipeline * result.expert;
  for (std::int64_t i = 0; i < count; ++i) {
    const Rank rank{
        i / (result.tensor * result.pipeline),
        i / result.tensor % result.pipeline,
        i % result.tensor};
    const auto file = found.files.find(rank);
    if (file == found.files.end()) {
      throw CheckpointError(
          {.what = "a rank of the checkpoint is missing",
           .where = place.folder.string(),
           .values = rank_folder(
               {rank.tensor, rank.stage, rank.expert},
               {.pipeline = found.staged ? 2 : 1, .expert = result.expert})});
    }
    result.paths.push_back(file->second);
  }
  return result;
}

} // namespace cairn::checkpoints::megatron
