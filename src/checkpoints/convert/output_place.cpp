#include "checkpoints/convert/output_place.h"

#include "base/internal/remove_tree.h"
#include "base/internal/sync_file.h"
#include "checkpoints/convert/torch_place.h"
#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/tensors/make_folder.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <system_error>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 4> file_endings{
    ".pt",
    ".pth",
    ".bin",
    ".ckpt"};

bool names_a_file(const ConvertOptions& options, const fs::path& target) {
  return options.to == CheckpointFormat::torch && !fs::is_directory(target) &&
      std::ranges::find(file_endings, target.extension()) != file_endings.end();
}

/// The path without a slash at its end, links and dots.
fs::path plain(const fs::path& path) {
  const fs::path whole = fs::weakly_canonical(fs::absolute(path));
  return whole.has_filename() ? whole : whole.parent_path();
}

bool holds(const fs::path& folder, const fs::path& path) {
  const auto [in_folder, in_path] = std::ranges::mismatch(folder, path);
  return in_folder == folder.end();
}

/// Refuses to replace anything but a checkpoint: a mistyped name must not cost
/// a home folder.
void check_free(const fs::path& target, bool overwrite) {
  if (!fs::exists(target) ||
      (fs::is_directory(target) && fs::is_empty(target))) {
    return;
  }
  if (!overwrite) {
    throw CheckpointError(
        {.what = "there is something of that name already",
         .where = target.string(),
         .remedy = "choose another output, or overwrite it"});
  }
  try {
    detect_checkpoint_format(target);
  } catch (const CheckpointError& error) {
    throw CheckpointError(
        {.what = "only a checkpoint can be overwritten, and this is none",
         .where = target.string(),
         .values = error.problem().what});
  }
}

} // namespace

OutputPlace::OutputPlace(const ConvertOptions& options) {
  try {
    target_ = plain(options.output);
    file_ = names_a_file(options, target_);
    if (target_.filename().empty() || holds(target_, plain(options.input))) {
      throw ConfigError(
          {.what = "the output is the input, or holds it",
           .where = options.output.string(),
           .remedy = "choose another output"});
    }
    check_free(target_, options.overwrite);
  } catch (const fs::filesystem_error& error) {
    throw CheckpointError(
        {.what = "cannot be written to",
         .where = options.output.string(),
         .values = error.code().message()});
  }
  make_folder(target_.parent_path());
  partial_ = partial_folder(
      target_.parent_path(),
      target_.filename().string(),
      std::to_string(::getpid()));
  // Left by a process of the same number that ended long ago.
  discard_tree(partial_);
  make_folder(partial_);
  path_ = options.to != CheckpointFormat::torch ? partial_
      : file_                                   ? partial_ / target_.filename()
                                                : partial_ / torch_file_name;
}

OutputPlace::~OutputPlace() {
  discard_tree(partial_);
}

void OutputPlace::publish() {
  if (file_) {
    std::error_code error;
    fs::rename(path_, target_, error);
    if (error) {
      throw CheckpointError(
          {.what = "cannot be named so",
           .where = target_.string(),
           .values = error.message()});
    }
    sync_folder_of(target_);
    return;
  }
  for (const auto& entry : fs::recursive_directory_iterator(partial_)) {
    if (entry.is_directory()) {
      sync_folder_of(entry.path() / ".");
    }
  }
  checkpoints::publish(
      partial_,
      target_.parent_path(),
      target_.filename().string());
}

} // namespace cairn::checkpoints
