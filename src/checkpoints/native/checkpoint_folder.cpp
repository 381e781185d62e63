#include "checkpoints/internal/checkpoint_folder.h"

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"
#include "base/internal/regular_file.h"
#include "base/internal/remove_tree.h"
#include "base/internal/sync_file.h"
#include "base/internal/terminal_safe.h"
#include "checkpoints/internal/damaged_checkpoint.h"
#include "checkpoints/internal/manifest.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>
#include <tuple>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view partial_ending = ".partial";
constexpr std::string_view deleting_ending = ".deleting";

fs::path hidden(
    const fs::path& folder,
    const std::string& tag,
    const std::string& nonce,
    std::string_view ending) {
  return folder / fmt::format(".{}.{}{}", tag, nonce, ending);
}

void sync_folder(const fs::path& folder) {
  sync_file(open_file(folder, O_RDONLY | O_DIRECTORY).get(), folder);
}

/// A name that no earlier deletion has taken.
fs::path fresh_hidden(
    const fs::path& folder,
    const std::string& tag,
    std::string_view ending) {
  for (int i = 0;; ++i) {
    fs::path path = hidden(folder, tag, std::to_string(i), ending);
    if (!fs::exists(fs::symlink_status(path))) {
      return path;
    }
  }
}

void rename_folder(const fs::path& from, const fs::path& to) {
  if (file_calls().renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), 0) !=
      0) {
    throw file_error("rename to " + to.string(), from, errno);
  }
}

/// Swaps two names: both folders exist at any moment. False where the file
/// system cannot do that.
bool exchange(const fs::path& one, const fs::path& other) {
  if (file_calls().renameat2(
          AT_FDCWD,
          one.c_str(),
          AT_FDCWD,
          other.c_str(),
          RENAME_EXCHANGE) == 0) {
    return true;
  }
  if (errno == EINVAL || errno == ENOSYS) {
    return false;
  }
  throw file_error("exchange with " + other.string(), one, errno);
}

/// The reason why the checkpoint cannot be loaded. Fills in the known facts.
std::string problem_of(const fs::path& place, FoundCheckpoint& found) {
  try {
    const Manifest manifest = read_manifest(place);
    found.step = manifest.step;
    found.saved_at = manifest.saved_at;
    found.writers = manifest.files.size();
    for (const ManifestFile& file : manifest.files) {
      found.bytes += file.bytes;
      std::error_code error;
      const std::uintmax_t size = fs::file_size(place / file.name, error);
      if (error) {
        return fmt::format("{}: {}", file.name, error.message());
      }
      if (size != file.bytes) {
        return fmt::format(
            "{} has {} bytes, {} were written",
            file.name,
            size,
            file.bytes);
      }
    }
    return {};
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

} // namespace

void check_tag(const std::string& tag) {
  if (tag.empty() || tag.front() == '.' || tag.size() > 200 ||
      fs::path(tag).filename() != fs::path(tag) || tag == "latest" ||
      tag.find('\0') != std::string::npos || terminal_safe(tag) != tag ||
      tag.find('\n') != std::string::npos) {
    throw ConfigError(
        {.what = "a checkpoint's tag must be a plain name",
         .values = tag,
         .remedy = "neither empty nor with a slash, a leading dot, control "
                   "characters or \"latest\""});
  }
}

fs::path partial_folder(
    const fs::path& folder,
    const std::string& tag,
    const std::string& nonce) {
  return hidden(folder, tag, nonce, partial_ending);
}

void publish(
    const fs::path& partial,
    const fs::path& folder,
    const std::string& tag) {
  sync_folder(partial);
  const fs::path place = folder / tag;
  if (!fs::exists(fs::symlink_status(place))) {
    rename_folder(partial, place);
    sync_folder(folder);
    return;
  }
  if (exchange(partial, place)) {
    sync_folder(folder);
    discard_tree(partial); // the old checkpoint by now
    return;
  }
  const fs::path old = fresh_hidden(folder, tag, deleting_ending);
  rename_folder(place, old);
  rename_folder(partial, place);
  sync_folder(folder);
  discard_tree(old);
}

void write_latest(const fs::path& folder, const std::string& tag) {
  write_file_atomically(folder / "latest", tag);
}

Latest read_latest(const fs::path& folder) {
  const fs::path path = folder / "latest";
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::not_found) {
    return {};
  }
  try {
    std::string tag = read_file(path, 4096);
    while (!tag.empty() && (tag.back() == '\n' || tag.back() == '\r')) {
      tag.pop_back(); // left by an editor
    }
    if (tag.empty()) {
      return {.problem = path.string() + ": is empty"};
    }
    check_tag(tag);
    return {.tag = std::move(tag)};
  } catch (const ConfigError&) {
    return {.problem = path.string() + ": holds no name of a checkpoint"};
  } catch (const DataError& unreadable) { // its text names the file
    return {.problem = unreadable.what()};
  }
}

std::vector<FoundCheckpoint> find_checkpoints(const fs::path& folder) {
  std::vector<FoundCheckpoint> all;
  if (!fs::is_directory(folder)) {
    return all;
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::error_code unreadable; // such as a link that leads in a circle
    if (name.front() == '.' ||
        !fs::exists(entry.path() / manifest_name, unreadable)) {
      continue;
    }
    FoundCheckpoint found{.tag = name};
    found.problem = problem_of(entry.path(), found);
    all.push_back(std::move(found));
  }
  std::ranges::sort(all, {}, [](const FoundCheckpoint& found) {
    return std::tuple(found.problem.empty(), found.saved_at, found.tag);
  });
  return all;
}

std::vector<std::string> load_order(
    const fs::path& folder,
    const std::function<void(const std::string&)>& warn) {
  std::vector<std::string> tags;
  const Latest latest = read_latest(folder);
  if (!latest.problem.empty()) {
    warn(latest.problem + "; the newest complete checkpoint counts instead");
  } else if (!latest.tag.empty()) {
    tags.push_back(latest.tag);
  }
  std::vector<FoundCheckpoint> found = find_checkpoints(folder);
  for (auto one = found.rbegin(); one != found.rend(); ++one) {
    if (std::ranges::find(tags, one->tag) == tags.end()) {
      tags.push_back(one->tag);
    }
  }
  return tags;
}

void remove_checkpoint(const fs::path& folder, const std::string& tag) {
  check_tag(tag);
  const fs::path doomed = fresh_hidden(folder, tag, deleting_ending);
  rename_folder(folder / tag, doomed);
  remove_tree(doomed);
}

void remove_remains(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.front() == '.' &&
        (name.ends_with(partial_ending) || name.ends_with(deleting_ending) ||
         (name.starts_with(".latest.") && name.ends_with(".tmp")))) {
      remove_tree(entry.path());
    }
  }
}

namespace {

/// Locks a file for this process; returns 0 or the error. A process that was
/// killed keeps its locks until its last write is over, so it tries for a
/// while.
int lock_for_writing(int file) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || Clock::now() >= end) {
      return errno;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return 0;
}

} // namespace

WriterLock::WriterLock(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  file_ = open_regular_file(path, O_RDWR | O_CREAT);
  const int error = lock_for_writing(file_.get());
  if (error == EWOULDBLOCK) {
    throw CheckpointError(
        {.what = "another job is writing to this folder",
         .where = folder.string(),
         .remedy =
             "give each job a folder of its own, or end the other one; on "
             "a network's file system the lock of a machine that died "
             "lasts a minute or two"});
  }
  // The two others mean a file system without locks, which is accepted.
  if (error != 0 && error != ENOLCK && error != EOPNOTSUPP) {
    throw file_error("lock", path, error);
  }
}

} // namespace cairn::checkpoints
