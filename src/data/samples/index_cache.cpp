#include "data/samples/index_cache.h"

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"
#include "base/internal/sync_file.h"
#include "data/indexed/npy_file.h"
#include "data/internal/checksum_list.h"
#include "data/samples/build_lock.h"
#include "data/samples/index_description.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace cairn::data {
namespace {

namespace fs = std::filesystem;

/// Size limit of a description. A blend of thousands of datasets has one of
/// some megabytes.
constexpr std::uint64_t description_limit = 64 << 20;
constexpr std::string_view description_suffix = "-description.txt";
constexpr std::string_view checksums_suffix = "-crc32c.txt";

std::string stem_of(const IndexCache::Key& key) {
  if (key.naming == IndexNaming::megatron_deepspeed) {
    return md5_of(key.description);
  }
  const std::string stem =
      fmt::format("{}-{}", md5_of(key.description), key.class_name);
  return key.split ? fmt::format("{}-{}", stem, name_of(*key.split)) : stem;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// Distinguishes a file from another one that replaced it under the same name.
struct FileIdentity {
  ino_t inode = 0;
  time_t seconds = 0;
  long nanoseconds = 0;
  bool operator==(const FileIdentity&) const = default;
};

std::optional<FileIdentity> identity_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  return FileIdentity{
      status.st_ino,
      status.st_mtim.tv_sec,
      status.st_mtim.tv_nsec};
}

/// True in one process of each machine, or in all if the launcher does not
/// number them.
bool is_first_of_machine() {
  const char* const local_rank = std::getenv("LOCAL_RANK");
  return local_rank == nullptr || std::string_view(local_rank) == "0";
}

bool is_as_written(
    const fs::path& array,
    const std::vector<FileChecksum>& written) {
  if (is_first_of_machine()) {
    return std::ranges::find(written, checksum_of(array, [](std::uint64_t) {
                             })) != written.end();
  }
  const auto found = std::ranges::find(
      written,
      array.filename().string(),
      &FileChecksum::name);
  std::error_code error;
  return found != written.end() && fs::file_size(array, error) == found->size;
}

/// Says which array is not the one that was written, where checksums were
/// written beside the arrays. Megatron writes none. One process of a machine
/// reads the arrays for that; the others compare sizes.
std::string fault_of_bytes(
    const fs::path& checksums,
    const std::vector<fs::path>& arrays) {
  if (!is_there(checksums)) {
    return {};
  }
  const std::vector<FileChecksum> written = read_checksums(checksums);
  for (const fs::path& array : arrays) {
    if (!is_as_written(array, written)) {
      return array.filename().string() + " is not what was written";
    }
  }
  return {};
}

/// Deletes a description, so that its arrays no longer count as a complete set.
void withdraw(const fs::path& description) {
  if (file_calls().unlinkat(AT_FDCWD, description.c_str(), 0) == 0) {
    sync_folder_of(description);
  } else if (errno != ENOENT) {
    throw file_error("replace", description, errno);
  }
}

// Removes the remains of a killed builder; called under the lock.
void remove_temporaries(const fs::path& folder, const std::string& stem) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("." + stem) && name.ends_with(".tmp")) {
      std::error_code ignored;
      fs::remove(at->path(), ignored);
    }
  }
}

} // namespace

IndexCache::IndexCache(fs::path folder, Logger logger)
    : folder_(std::move(folder)), logger_(logger) {}

fs::path IndexCache::file(const std::string& stem, std::string_view suffix)
    const {
  return folder_ / fmt::format("{}{}", stem, suffix);
}

fs::path IndexCache::description_file(const Key& key, const std::string& stem)
    const {
  return file(
      stem,
      key.naming == IndexNaming::megatron ? description_suffix : ".dsc");
}

std::vector<fs::path> IndexCache::array_files(
    const Key& key,
    const std::string& stem) const {
  const char mark = key.naming == IndexNaming::megatron ? '-' : '_';
  std::vector<fs::path> files;
  for (const std::string& name : key.arrays) {
    files.push_back(file(stem, fmt::format("{}{}.npy", mark, name)));
  }
  return files;
}

bool IndexCache::has(const Key& key, const std::string& stem) const {
  return is_there(description_file(key, stem)) &&
      std::ranges::all_of(array_files(key, stem), is_there);
}

bool IndexCache::has(const Key& key) const {
  return has(key, stem_of(key));
}

std::optional<IndexCache::Result> IndexCache::load(
    const Key& key,
    const std::string& stem,
    const std::function<std::string(const Arrays&)>& misfit,
    WhenUnfit when_unfit) const {
  Result result{.origin = IndexOrigin::file, .file = folder_ / stem};
  const fs::path description = description_file(key, stem);
  const auto identity = identity_of(description);
  if (!identity || !has(key, stem)) {
    return std::nullopt;
  }
  std::string problem;
  try {
    const std::vector<fs::path> files = array_files(key, stem);
    problem = fault_of_bytes(file(stem, checksums_suffix), files);
    if (problem.empty()) {
      for (const fs::path& array : files) {
        result.arrays.push_back(load_npy(array));
      }
      problem = misfit(result.arrays);
    }
  } catch (const DataError& error) {
    problem = error.what();
  }
  if (identity_of(description) != identity) {
    return std::nullopt; // replaced meanwhile: the arrays may be mixed
  }
  if (problem.empty()) {
    return result;
  }
  if (when_unfit == WhenUnfit::say_nothing) {
    return std::nullopt;
  }
  logger_.warning(
      "the index files {}*.npy do not fit and are not used: {}",
      result.file.string(),
      problem);
  return std::nullopt;
}

std::optional<std::string> IndexCache::equivalent_stem(const Key& key) {
  if (key.naming == IndexNaming::megatron_deepspeed) {
    return std::nullopt; // its descriptions hold no tokenizer
  }
  const std::lock_guard lock(mutex_);
  if (!known_) {
    known_.emplace();
    std::error_code error;
    for (fs::directory_iterator at(folder_, error), end; !error && at != end;
         at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (!name.ends_with(description_suffix)) {
        continue;
      }
      try {
        known_->emplace(
            comparable(
                read_file(at->path(), description_limit),
                at->path().string()),
            name.substr(0, name.size() - description_suffix.size()));
      } catch (const DataError&) {
        // A file of another program, or one that is being written.
      }
    }
  }
  const auto found =
      known_->find(comparable(key.description, "the description of an index"));
  if (found == known_->end()) {
    return std::nullopt;
  }
  return found->second;
}

bool IndexCache::store(
    const Key& key,
    const std::string& stem,
    const Arrays& arrays) const {
  const fs::path description = description_file(key, stem);
  const std::vector<fs::path> files = array_files(key, stem);
  const fs::path checksums = file(stem, checksums_suffix);
  try {
    withdraw(description);
    std::vector<FileChecksum> written;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      save_npy(files[i], arrays[i]);
      written.push_back(checksum_of_npy(files[i].filename(), arrays[i]));
    }
    write_checksums(checksums, written);
    write_file_atomically(description, key.description);
    return true;
  } catch (const DataError& error) {
    logger_.warning("indices are kept in memory only: {}", error.what());
    for (const fs::path& file : files) { // an incomplete set is useless
      file_calls().unlinkat(AT_FDCWD, file.c_str(), 0);
    }
    file_calls().unlinkat(AT_FDCWD, checksums.c_str(), 0);
    return false;
  }
}

IndexCache::Result IndexCache::get(
    const Key& key,
    const std::function<std::string(const Arrays&)>& misfit,
    const std::function<Arrays()>& build) {
  const std::string stem = stem_of(key);
  if (auto result = load(key, stem, misfit)) {
    return std::move(*result);
  }
  if (const auto other = equivalent_stem(key); other && *other != stem) {
    if (auto result = load(key, *other, misfit)) {
      return std::move(*result);
    }
  }
  std::optional<BuildLock> lock;
  try {
    std::error_code error;
    fs::create_directories(folder_, error);
    lock.emplace(
        file(stem, ".lock"),
        fmt::format("builds the {} indices", key.class_name),
        logger_);
  } catch (const DataError& error) {
    logger_.warning(
        "indices are kept in memory only, as their folder cannot be written "
        "(--data-cache-path moves it): {}",
        error.what());
    return {.arrays = build()};
  }
  // The previous holder of the lock may have made the files meanwhile.
  if (auto result = load(key, stem, misfit, WhenUnfit::say_nothing)) {
    return std::move(*result);
  }
  remove_temporaries(folder_, stem);
  Result result{.arrays = build()};
  if (store(key, stem, result.arrays)) {
    // All processes of the machine share mapped files.
    if (auto mapped = load(key, stem, misfit)) {
      mapped->origin = IndexOrigin::built;
      return std::move(*mapped);
    }
  }
  return result;
}

fs::path default_index_folder(
    const fs::path& prefix,
    std::string_view class_name,
    IndexNaming naming) {
  if (naming == IndexNaming::megatron_deepspeed) {
    return prefix.parent_path() / "index-cache";
  }
  return prefix / "cache" / fmt::format("{}_indices", class_name);
}

} // namespace cairn::data
