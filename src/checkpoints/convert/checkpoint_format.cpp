#include <cairn/checkpoints/checkpoint_format.h>

#include "base/internal/regular_file.h"
#include "checkpoints/convert/torch_place.h"
#include "checkpoints/dcp/folder.h"
#include "checkpoints/deepspeed/tag_files.h"
#include "checkpoints/huggingface/weight_files.h"
#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/internal/manifest.h"
#include "checkpoints/megatron/rank_files.h"
#include "checkpoints/megatron/torch_dist.h"

#include <cairn/base/error.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <fstream>
#include <string>
#include <vector>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> names{
    "native",
    "deepspeed",
    "megatron",
    "huggingface",
    "torch",
    "dcp",
    "safetensors"};

/// The format of a file. torch writes ZIP archives, and wrote pickles before
/// 1.6.
CheckpointFormat format_of_file(const fs::path& file) {
  std::array<char, 9> begin{};
  // The stream would wait for whoever writes to a named pipe.
  static_cast<void>(open_regular_file(file, O_RDONLY));
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), begin.size());
  const std::string_view read(
      begin.data(),
      static_cast<std::size_t>(stream.gcount()));
  if (read.starts_with("PK\x03\x04") || read.starts_with("\x80\x02")) {
    return CheckpointFormat::torch;
  }
  if (read.size() == begin.size() && read.back() == '{') {
    return CheckpointFormat::safetensors;
  }
  throw CheckpointError(
      {.what = "neither a file of torch.save nor one of safetensors",
       .where = file.string()});
}

bool is_native(const fs::path& folder) {
  if (fs::exists(folder / manifest_name)) {
    return true;
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / manifest_name) &&
        !entry.path().filename().string().starts_with('.')) {
      return true;
    }
  }
  return false;
}

bool is_deepspeed(const fs::path& folder) {
  try {
    deepspeed::tag_files(folder, "");
    return true;
  } catch (const Error&) { // no such files
    return false;
  }
}

/// True for a folder of torch.distributed.checkpoint that is not Megatron's, or
/// a folder of several.
bool is_dcp(const fs::path& folder) {
  const auto newest = dcp::newest_step(folder);
  return newest && !megatron::is_torch_dist(*newest);
}

/// True for Megatron's own files. A model of Megatron's in DeepSpeed's files
/// counts as DeepSpeed's.
bool is_megatron(const fs::path& folder) {
  try {
    const auto place = megatron::find_place(folder, std::nullopt);
    if (megatron::is_torch_dist(place.folder)) {
      return true;
    }
    const auto files = megatron::find_rank_files(place);
    return !files.paths.front().filename().string().ends_with(
        "_model_states.pt");
  } catch (const Error&) {
    return fs::exists(folder / megatron::tracker_file) && !is_deepspeed(folder);
  }
}

} // namespace

std::string_view name_of(CheckpointFormat format) {
  return names.at(static_cast<std::size_t>(format));
}

std::optional<CheckpointFormat> checkpoint_format_from(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) {
      return static_cast<CheckpointFormat>(i);
    }
  }
  return std::nullopt;
}

CheckpointFormat detect_checkpoint_format(const fs::path& input) {
  std::error_code error;
  const fs::file_status status = fs::status(input, error);
  if (!fs::exists(status)) {
    throw CheckpointError(
        {.what = "there is no such file or folder", .where = input.string()});
  }
  if (!fs::is_directory(status)) {
    return format_of_file(input);
  }
  std::vector<CheckpointFormat> found;
  const auto note = [&](bool is, CheckpointFormat format) {
    if (is) {
      found.push_back(format);
    }
  };
  try {
    note(is_native(input), CheckpointFormat::native);
    note(is_deepspeed(input), CheckpointFormat::deepspeed);
    note(is_megatron(input), CheckpointFormat::megatron);
    note(is_dcp(input), CheckpointFormat::dcp);
    note(huggingface::has_weights(input), CheckpointFormat::huggingface);
    note(fs::is_regular_file(input / torch_file_name), CheckpointFormat::torch);
  } catch (const fs::filesystem_error& failure) {
    throw CheckpointError(
        {.what = "the folder cannot be read",
         .where = input.string(),
         .values = failure.code().message()});
  }
  if (found.size() == 1) {
    return found.front();
  }
  if (found.empty()) {
    throw CheckpointError(
        {.what = "no checkpoint that we know",
         .where = input.string(),
         .values = fmt::format(
             "looked for {} there or in a folder below; for `latest` or "
             "*_model_states.pt; for {} or mp_rank_00; for {}; for "
             "model.safetensors or pytorch_model.bin; for {}",
             manifest_name,
             megatron::tracker_file,
             dcp::metadata_name,
             torch_file_name)});
  }
  std::vector<std::string_view> said;
  for (const CheckpointFormat format : found) {
    said.push_back(name_of(format));
  }
  throw CheckpointError(
      {.what = "checkpoints of several formats in one folder",
       .where = input.string(),
       .values = fmt::format("{}", fmt::join(said, ", ")),
       .remedy = "say which one to read"});
}

} // namespace cairn::checkpoints
