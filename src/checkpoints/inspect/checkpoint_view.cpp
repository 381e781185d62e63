#include "checkpoints/internal/checkpoint_view.h"

#include "checkpoints/convert/torch_place.h"
#include "checkpoints/inspect/views.h"
#include "checkpoints/internal/checkpoint_folder.h"
#include "checkpoints/internal/safetensors_header.h"
#include "checkpoints/pickle/python_json.h"

#include <cairn/base/error.h>

#include <ctime>
#include <set>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

CheckpointView view(
    CheckpointFormat format,
    const fs::path& path,
    WeightNames names) {
  switch (format) {
    case CheckpointFormat::native:
      return view_native(path);
    case CheckpointFormat::deepspeed:
      return view_deepspeed(path);
    case CheckpointFormat::megatron:
      return view_megatron(path);
    case CheckpointFormat::huggingface:
      return view_huggingface(path, names);
    case CheckpointFormat::torch:
      return view_torch(fs::is_directory(path) ? path / torch_file_name : path);
    case CheckpointFormat::dcp:
      return view_dcp(path);
    case CheckpointFormat::safetensors:
      return view_safetensors(path);
  }
  throw InternalError({.what = "a format without a view"});
}

} // namespace

CheckpointView view_checkpoint(
    const fs::path& path,
    const std::string& tag,
    WeightNames names) {
  if (!tag.empty()) {
    check_tag(tag);
  }
  const fs::path chosen = tag.empty() ? path : path / tag;
  const CheckpointFormat format = detect_checkpoint_format(chosen);
  try {
    CheckpointView result = view(format, chosen, names);
    result.format = format;
    return result;
  } catch (const fs::filesystem_error& error) {
    throw CheckpointError(
        {.what = "cannot be read",
         .where = chosen.string(),
         .values = error.code().message()});
  }
}

std::uint64_t bytes_of(const LazyTensor& tensor) {
  return tensor_bytes(tensor.shape, tensor.type).value_or(0);
}

std::uint64_t bytes_of(const NamedTensors& tensors) {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : tensors) {
    sum += bytes_of(tensor);
  }
  return sum;
}

Facts facts_of(const PythonValue& value) {
  using Kind = PythonValue::Kind;
  if (const auto whole = json_of(value)) {
    return *whole;
  }
  const PythonValue members = value.is(Kind::object) ? value.state() : value;
  if (!members.is(Kind::dict)) {
    return value.describe(1);
  }
  Facts facts = Facts::object();
  for (const auto& [key, member] : members.entries()) {
    const auto said = json_of(member);
    facts[key.is(Kind::text) ? key.text() : key.describe(0)] =
        said ? Facts(*said) : Facts(member.describe(1));
  }
  return facts;
}

std::string utc_time(std::int64_t nanoseconds) {
  const std::time_t seconds = nanoseconds / 1'000'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[40];
  return {
      text,
      std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

void drop_ties(NamedTensors& tensors, const std::vector<Tie>& ties) {
  std::set<std::string> tied;
  for (const Tie& tie : ties) {
    tied.insert(tie.first);
  }
  std::erase_if(tensors, [&](const auto& named) {
    return tied.contains(named.first);
  });
}

} // namespace cairn::checkpoints
