#include "checkpoints/convert/native.h"
#include "checkpoints/convert/torch_place.h"
#include "checkpoints/internal/portable_checkpoint.h"
#include "checkpoints/tensors/make_folder.h"
#include "checkpoints/tensors/named_tensors.h"

#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <cairn/checkpoints/deepspeed.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/torch_file.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;

std::uint64_t bytes_of(const NamedTensors& tensors) {
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    bytes += static_cast<std::uint64_t>(c10::multiply_integers(tensor.shape)) *
        c10::elementSize(tensor.type);
  }
  return bytes;
}

NamedTensors typed(NamedTensors tensors, std::optional<at::ScalarType> type) {
  for (auto& [name, tensor] : tensors) {
    if (type && c10::isFloatingType(tensor.type)) {
      tensor = as_type(std::move(tensor), *type);
    }
  }
  return tensors;
}

const model::ModelDescription& description_of(
    const Portable& portable,
    CheckpointFormat format) {
  if (!portable.description) {
    throw ConfigError(
        {.what = fmt::format(
             "the input does not say which model it is, and \"{}\" files can "
             "only be written of a known one",
             name_of(format)),
         .values = "gpt2, llama, bert, roberta or t5",
         .remedy = portable.unknown_model.empty()
             ? "write native, deepspeed or torch files, which take any names"
             : portable.unknown_model});
  }
  if (portable.description->experts) {
    throw ConfigError(
        {.what = fmt::format(
             "a model with experts has no place in \"{}\" files",
             name_of(format)),
         .remedy = "write native, deepspeed or torch files, which take any "
                   "names"});
  }
  return *portable.description;
}

/// The user's own values, with the model's description beside them.
PythonValue with_description(const Portable& portable) {
  std::vector<PythonValue::Entry> entries = portable.client.entries();
  if (portable.description) {
    entries.emplace_back(
        PythonValue::text(description_key),
        PythonValue::text(to_json(*portable.description)));
  }
  return PythonValue::dict(std::move(entries));
}

void note_state(Portable& portable) {
  if (!portable.optimizer_states.empty()) {
    portable.left_out.push_back("optimizer states");
  }
  if (!portable.buffers.empty()) {
    portable.left_out.push_back("buffers");
  }
  if (portable.client.size() > 0) {
    portable.left_out.push_back("client state");
  }
}

at::ScalarType trained_type(
    const Portable& portable,
    const ConvertOptions& options) {
  if (options.type || portable.trained_in) {
    return options.type ? *options.type : *portable.trained_in;
  }
  const auto first = std::ranges::find_if(
      portable.parameters,
      [](const auto& named) { return c10::isFloatingType(named.second.type); });
  return first == portable.parameters.end() ? at::kFloat : first->second.type;
}

int stage_of(const Portable& portable, const ConvertOptions& options) {
  return options.zero_stage.value_or(portable.optimizer_states.empty() ? 0 : 2);
}

void to_deepspeed(
    const Portable& portable,
    const fs::path& folder,
    const ConvertOptions& options) {
  std::set<std::string> trained;
  for (const StoredGroup& group : portable.groups) {
    trained.insert(group.names.begin(), group.names.end());
  }
  const at::ScalarType type = trained_type(portable, options);
  DeepSpeedState state;
  for (const auto& [name, tensor] : typed(portable.parameters, type)) {
    (trained.empty() || trained.contains(name) ? state.parameters
                                               : state.frozen)
        .emplace_back(name, tensor);
  }
  if (type != at::kFloat) {
    for (const auto& [name, tensor] : portable.parameters) {
      if (trained.empty() || trained.contains(name)) {
        state.masters.emplace_back(name, tensor);
      }
    }
  }
  state.buffers = portable.buffers;
  state.ties = portable.ties;
  state.optimizer_states = portable.optimizer_states;
  state.groups = portable.groups;
  state.global_steps = portable.steps;
  state.skipped_steps = portable.skipped_steps;
  state.global_samples = portable.samples;
  state.lr_scheduler = portable.lr_scheduler;
  state.loss_scaler = portable.loss_scaler;
  if (portable.config.is(Kind::dict)) {
    state.config = portable.config;
  }
  state.client_state = with_description(portable);
  write_deepspeed(
      folder,
      state,
      {.stage = stage_of(portable, options),
       .ranks = options.zero_ranks,
       .type = type});
}

/// The spelling of Megatron's input; unset for input of other programs.
std::optional<MegatronNames> names_of_input(
    const Portable& portable,
    const ConvertOptions& options) {
  const bool any = options.megatron_format == MegatronFormat::torch;
  return any ? portable.megatron_names : std::nullopt;
}

void to_megatron(
    Portable& portable,
    const fs::path& folder,
    const ConvertOptions& options) {
  const model::ModelDescription& description =
      description_of(portable, CheckpointFormat::megatron);
  note_state(portable);
  write_megatron(
      folder,
      description,
      portable.parameters,
      {.split = options.split,
       .format = options.megatron_format,
       .names = options.megatron_names ? options.megatron_names
                                       : names_of_input(portable, options),
       .type = options.type,
       .iteration = portable.released || portable.steps == 0
           ? std::nullopt
           : std::optional(portable.steps),
       .vocabulary_multiple = options.vocabulary_multiple,
       .args = portable.megatron_args,
       .others = portable.megatron_others});
}

void to_huggingface(
    Portable& portable,
    const fs::path& folder,
    const ConvertOptions& options) {
  const model::ModelDescription& description =
      description_of(portable, CheckpointFormat::huggingface);
  note_state(portable);
  write_huggingface(
      folder,
      description,
      portable.parameters,
      {.type = options.type,
       .tokenizer =
           options.tokenizer.empty() ? portable.tokenizer : options.tokenizer});
}

void to_torch(
    const Portable& portable,
    const fs::path& path,
    const ConvertOptions& options) {
  TorchCheckpoint file{
      .weights = typed(portable.parameters, options.type),
      .ties = portable.ties,
      .optimizer_states = portable.optimizer_states,
      .groups = portable.groups};
  std::map<std::string, LazyTensor> known(
      file.weights.begin(),
      file.weights.end());
  for (const auto& [name, holder] : portable.ties) {
    if (const auto found = known.find(holder); found != known.end()) {
      file.weights.emplace_back(name, found->second);
    }
  }
  for (const auto& named : portable.buffers) {
    file.weights.push_back(named);
  }
  std::vector<PythonValue::Entry> rest = with_description(portable).entries();
  if (!portable.client.find("iteration") && portable.steps > 0) {
    rest.emplace_back(
        PythonValue::text("iteration"),
        PythonValue::integer(portable.steps));
  }
  file.rest = PythonValue::dict(std::move(rest));
  write_torch_checkpoint(path, file);
}

} // namespace

bool holds_states(CheckpointFormat format) {
  return format == CheckpointFormat::native ||
      format == CheckpointFormat::deepspeed ||
      format == CheckpointFormat::torch;
}

std::uint64_t bytes_to_read(
    const Portable& portable,
    const ConvertOptions& options) {
  const std::uint64_t parameters = bytes_of(portable.parameters);
  const std::uint64_t rest =
      bytes_of(portable.buffers) + bytes_of(portable.optimizer_states);
  switch (options.to) {
    // Each tensor rank reads whole tensors to cut its part.
    case CheckpointFormat::megatron:
      return options.megatron_format == MegatronFormat::torch_dist
          ? parameters
          : parameters * static_cast<std::uint64_t>(options.split.tensor);
    case CheckpointFormat::huggingface:
      return parameters;
    // Read twice: for the model and for the fp32 copies.
    case CheckpointFormat::deepspeed:
      return parameters * (stage_of(portable, options) > 0 ? 2 : 1) + rest;
    default:
      return parameters + rest;
  }
}

void write_portable(
    Portable& portable,
    const fs::path& place,
    const ConvertOptions& options) {
  switch (options.to) {
    case CheckpointFormat::native:
      portable.parameters = typed(std::move(portable.parameters), options.type);
      write_native(place, portable, options.optimizer);
      return;
    case CheckpointFormat::deepspeed:
      to_deepspeed(portable, place, options);
      return;
    case CheckpointFormat::megatron:
      to_megatron(portable, place, options);
      return;
    case CheckpointFormat::huggingface:
      to_huggingface(portable, place, options);
      return;
    case CheckpointFormat::torch:
      to_torch(portable, place, options);
      return;
    case CheckpointFormat::dcp:
    case CheckpointFormat::safetensors:
      break;
  }
  throw ConfigError(
      {.what = "such files are only read",
       .values = std::string(name_of(options.to)),
       .remedy = "Hugging Face's and native folders hold safetensors files"});
}

} // namespace cairn::checkpoints
