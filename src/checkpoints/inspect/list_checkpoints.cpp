#include "checkpoints/internal/list_checkpoints.h"

#include "checkpoints/dcp/folder.h"
#include "checkpoints/deepspeed/universal_files.h"
#include "checkpoints/huggingface/weight_files.h"
#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/internal/manifest.h"
#include "checkpoints/megatron/rank_files.h"
#include "checkpoints/megatron/torch_dist.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoints/deepspeed.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>
#include <tuple>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

std::int64_t nanoseconds(fs::file_time_type time) {
  const auto system = std::chrono::file_clock::to_sys(time);
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             system.time_since_epoch())
      .count();
}

/// Measures size, number and time of the files with tensors below a folder.
void measure(const fs::path& folder, ListedCheckpoint& listed) {
  for (const auto& entry : fs::recursive_directory_iterator(
           folder,
           fs::directory_options::skip_permission_denied)) {
    const std::string ending = entry.path().extension().string();
    if (!entry.is_regular_file() ||
        (ending != ".pt" && ending != ".bin" && ending != ".distcp" &&
         ending != ".safetensors")) {
      continue;
    }
    listed.bytes += entry.file_size();
    listed.saved_at =
        std::max(listed.saved_at, nanoseconds(entry.last_write_time()));
    ++listed.files;
  }
}

/// The number after a prefix: 10 in "global_step10".
std::optional<std::int64_t> number_after(
    std::string_view prefix,
    std::string_view name) {
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  name.remove_prefix(prefix.size());
  std::int64_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  return error == std::errc() && stop == end && number >= 0
      ? std::optional(number)
      : std::nullopt;
}

bool has_file(
    const fs::path& folder,
    std::string_view begin,
    std::string_view end) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(end)) {
      return true;
    }
  }
  return false;
}

std::string problem_in(const auto& open) {
  try {
    open();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

ListedCheckpoint listed(
    const fs::path& folder,
    CheckpointFormat format,
    std::string_view before_step) {
  const std::string name = folder.filename().string();
  ListedCheckpoint result{
      .tag = name,
      .format = format,
      .step = number_after(before_step, name)};
  measure(folder, result);
  return result;
}

ListedCheckpoint listed_deepspeed(const fs::path& folder) {
  ListedCheckpoint result =
      listed(folder, CheckpointFormat::deepspeed, "global_step");
  result.problem = problem_in([&] {
    const DeepSpeedCheckpoint checkpoint({.folder = folder});
    result.step = checkpoint.global_steps();
  });
  return result;
}

ListedCheckpoint listed_native(const FoundCheckpoint& found) {
  return {
      .tag = found.tag,
      .format = CheckpointFormat::native,
      .step = found.problem.empty() || found.writers > 0
          ? std::optional(found.step)
          : std::nullopt,
      .saved_at = found.saved_at,
      .bytes = found.bytes,
      .files = found.writers,
      .problem = found.problem};
}

/// Describes a folder that is a checkpoint of another program, or has lost its
/// manifest.
std::optional<ListedCheckpoint> listed_other(const fs::path& folder) {
  if (deepspeed::is_universal(folder)) {
    ListedCheckpoint result =
        listed(folder, CheckpointFormat::deepspeed, "global_step");
    result.problem =
        problem_in([&] { deepspeed::universal_model_file(folder); });
    return result;
  }
  if (has_file(folder, "", "_states.pt")) {
    return listed_deepspeed(folder);
  }
  if (megatron::has_ranks(folder)) {
    ListedCheckpoint result =
        listed(folder, CheckpointFormat::megatron, "iter_");
    result.problem = problem_in([&] {
      megatron::find_rank_files(megatron::find_place(folder, std::nullopt));
    });
    return result;
  }
  if (dcp::is_dcp(folder)) {
    const bool megatron = megatron::is_torch_dist(folder);
    ListedCheckpoint result = megatron
        ? listed(folder, CheckpointFormat::megatron, "iter_")
        : listed(folder, CheckpointFormat::dcp, "step-");
    result.problem = problem_in([&] { dcp::Folder{folder}; });
    return result;
  }
  if (huggingface::has_weights(folder)) {
    ListedCheckpoint result =
        listed(folder, CheckpointFormat::huggingface, "checkpoint-");
    result.problem = problem_in([&] { huggingface::open_weights(folder); });
    return result;
  }
  if (has_file(folder, "rank-", ".safetensors")) {
    ListedCheckpoint result =
        listed(folder, CheckpointFormat::native, "global_step");
    result.problem = "it has no manifest.json";
    return result;
  }
  return std::nullopt;
}

/// The tag in `latest`, or in Megatron's tracker file.
Latest latest_of(const fs::path& folder) {
  Latest latest = read_latest(folder);
  const fs::path tracker = folder / megatron::tracker_file;
  std::error_code error;
  if (!latest.tag.empty() || !latest.problem.empty() ||
      fs::symlink_status(tracker, error).type() == fs::file_type::not_found) {
    return latest;
  }
  try {
    std::string text = read_file(tracker, 4096);
    std::erase_if(text, [](char c) { return c == ' ' || (c >= 9 && c <= 13); });
    const auto iteration = number_after("", text);
    latest.tag = iteration ? megatron::iteration_folder(*iteration) : text;
    check_tag(latest.tag);
  } catch (const ConfigError&) {
    return {.problem = tracker.string() + ": holds no iteration"};
  } catch (const DataError& unreadable) { // its text names the file
    return {.problem = unreadable.what()};
  }
  return latest;
}

/// The tag that loading takes. Native checkpoints are tried one after the
/// other; of other formats only the latest is.
std::string loaded_of(const fs::path& folder, const CheckpointList& list) {
  const auto complete = [&](const std::string& tag) {
    const auto found =
        std::ranges::find(list.checkpoints, tag, &ListedCheckpoint::tag);
    return found != list.checkpoints.end() && found->problem.empty();
  };
  if (complete(list.latest)) {
    return list.latest;
  }
  const bool native =
      std::ranges::any_of(list.checkpoints, [](const ListedCheckpoint& one) {
        return one.format == CheckpointFormat::native;
      });
  if (native) {
    for (const std::string& tag :
         load_order(folder, [](const std::string&) {})) {
      if (complete(tag)) {
        return tag;
      }
    }
  }
  return {};
}

CheckpointList list_folder(const fs::path& folder) {
  CheckpointList list;
  if (fs::exists(folder / manifest_name)) {
    for (const FoundCheckpoint& found :
         find_checkpoints(fs::canonical(folder).parent_path())) {
      if (found.tag == fs::canonical(folder).filename()) {
        list.checkpoints.push_back(listed_native(found));
      }
    }
    return list;
  }
  if (auto one = listed_other(folder)) {
    list.checkpoints.push_back(std::move(*one));
    return list;
  }
  Latest latest = latest_of(folder);
  list.latest = std::move(latest.tag);
  list.latest_problem = std::move(latest.problem);
  for (const FoundCheckpoint& found : find_checkpoints(folder)) {
    list.checkpoints.push_back(listed_native(found));
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::error_code unreadable; // such as a link that leads in a circle
    if (!entry.is_directory(unreadable)) {
      continue;
    }
    if (name.starts_with('.')) {
      if (name.ends_with(".partial") || name.ends_with(".deleting")) {
        list.remains.push_back(name);
      }
    } else if (!fs::exists(entry.path() / manifest_name)) {
      if (auto one = listed_other(entry.path())) {
        list.checkpoints.push_back(std::move(*one));
      }
    }
  }
  std::ranges::sort(list.checkpoints, {}, [](const ListedCheckpoint& one) {
    return std::tuple(one.saved_at, one.step, one.tag);
  });
  std::ranges::sort(list.remains);
  list.loaded = loaded_of(folder, list);
  return list;
}

} // namespace

CheckpointList list_checkpoints(const fs::path& folder) {
  try {
    if (!fs::is_directory(folder)) {
      throw CheckpointError(
          {.what = "no such folder", .where = folder.string()});
    }
    return list_folder(folder);
  } catch (const fs::filesystem_error& error) {
    throw CheckpointError(
        {.what = "cannot be listed",
         .where = folder.string(),
         .values = error.code().message()});
  }
}

} // namespace cairn::checkpoints
