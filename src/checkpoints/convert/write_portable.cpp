#include "checkpoints/convert/dcp.h"
#include "checkpoints/convert/native.h"
#include "checkpoints/convert/torch_place.h"
#include "checkpoints/deepspeed/write_universal.h"
#include "checkpoints/internal/portable_checkpoint.h"
#include "checkpoints/megatron/write_under_deepspeed.h"
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
  if (portable.schedule_samples) {
    entries.emplace_back(
        PythonValue::text(schedule_key),
        PythonValue::integer(*portable.schedule_samples));
  }
  if (!portable.optimizer.empty() && !portable.optimizer_states.empty()) {
    entries.emplace_back(
        PythonValue::text(optimizer_key),
        PythonValue::text(portable.optimizer));
  }
  return PythonValue::dict(std::move(entries));
}

/// True for a value of `cairn pretrain` that Megatron's files have elsewhere.
bool is_of_pretrain(const PythonValue& key) {
  return key.is(Kind::text) &&
      (key.text() == "schedule" || key.text() == "consumed_train_tokens" ||
       key.text() == "consumed_validation_samples");
}

void note_state(Portable& portable) {
  if (!portable.buffers.empty()) {
    portable.left_out.push_back("buffers");
  }
  const std::vector<PythonValue::Entry> client = portable.client.entries();
  if (!std::ranges::all_of(client, [](const PythonValue::Entry& entry) {
        return is_of_pretrain(entry.first);
      })) {
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
  const DeepSpeedLayout layout{
      .stage = stage_of(portable, options),
      .ranks = options.zero_ranks,
      .type = type};
  if (options.universal) {
    deepspeed::write_universal(folder, state, layout);
  } else {
    write_deepspeed(folder, state, layout);
  }
}

/// The spelling that is asked for, or the only one of the format, or that of
/// Megatron's input; unset for input of other programs.
std::optional<MegatronNames> megatron_names_of(
    const Portable& portable,
    const ConvertOptions& options) {
  if (options.megatron_names) {
    return options.megatron_names;
  }
  return options.megatron_format == MegatronFormat::torch_dist
      ? MegatronNames::core
      : portable.megatron_names;
}

/// The options of the groups, whose matrices decay.
PythonValue adam_options(const Portable& portable) {
  for (const StoredGroup& group : portable.groups) {
    const auto decay = group.options.find("weight_decay");
    const bool number =
        decay && (decay->is(Kind::real) || decay->is(Kind::integer));
    if (number && decay->real() != 0) {
      return group.options;
    }
  }
  return portable.groups.empty() ? PythonValue::dict({})
                                 : portable.groups.front().options;
}

/// The options of word embeddings and the output layer, where these have a
/// group and a learning rate of their own; else None.
PythonValue decoupled_options(const Portable& portable) {
  for (const StoredGroup& group : portable.groups) {
    const bool alone = !group.names.empty() &&
        std::ranges::all_of(group.names, [](const std::string& name) {
          return name == "embedding.word.weight" || name == "head.weight";
        });
    if (alone && group.options.find("max_lr")) {
      return group.options;
    }
  }
  return {};
}

/// The state of Megatron's schedule: that of a file of Megatron's, or the one
/// that `cairn pretrain` keeps, and how far it has come.
PythonValue megatron_schedule_of(const Portable& portable) {
  PythonValue saved = portable.client.find("schedule").value_or(PythonValue());
  for (const auto& [name, value] : portable.megatron_others) {
    if (name == "opt_param_scheduler" || name == "lr_scheduler") {
      saved = value;
    }
  }
  std::vector<PythonValue::Member> members;
  if (saved.is(Kind::dict) && saved.size() > 0) {
    for (const auto& [key, value] : saved.entries()) {
      if (key.is(Kind::text) && key.text() != "num_steps") {
        members.emplace_back(key.text(), value);
      }
    }
  } else {
    // Megatron takes its own values with --override-opt_param-scheduler.
    members = {
        {"max_lr",
         adam_options(portable).find("lr").value_or(PythonValue::real(0))},
        {"lr_warmup_steps", PythonValue::integer(0)},
        {"lr_decay_style", PythonValue::text("constant")},
        {"lr_decay_steps", PythonValue::integer(0)},
        {"min_lr", PythonValue::real(0)}};
  }
  members.emplace_back(
      "num_steps",
      PythonValue::integer(
          portable.schedule_samples.value_or(portable.samples)));
  return PythonValue::dict_of(std::move(members));
}

/// True for the states of an Adam of the whole model.
bool has_adam(const Portable& portable) {
  std::vector<std::string> kinds = state_kinds(portable);
  std::erase(kinds, "step");
  return kinds == std::vector<std::string>{"exp_avg", "exp_avg_sq"};
}

std::int64_t adam_steps(const Portable& portable) {
  for (const auto& [name, tensor] : portable.optimizer_states) {
    if (name.starts_with("step/") &&
        c10::multiply_integers(tensor.shape) == 1) {
      return tensor.load().to(at::kLong).item<std::int64_t>();
    }
  }
  return portable.steps - portable.skipped_steps;
}

/// The optimizer to write for Megatron; unset if there is none.
std::optional<MegatronOptimizer> megatron_optimizer(
    const Portable& portable,
    const ConvertOptions& options,
    std::optional<at::ScalarType> type) {
  if (portable.optimizer_states.empty()) {
    return std::nullopt;
  }
  MegatronOptimizer optimizer{
      .states = portable.optimizer_states,
      .steps = adam_steps(portable),
      .options = adam_options(portable),
      .decoupled_options = decoupled_options(portable),
      .schedule = megatron_schedule_of(portable),
      .loss_scaler = portable.loss_scaler,
      .distributed = options.megatron_distributed_optimizer};
  const bool half = type.value_or(at::kFloat) != at::kFloat;
  if (half || optimizer.distributed) {
    optimizer.masters = portable.parameters;
  }
  return optimizer;
}

/// The options of Megatron's files. A run in 16 bits goes on in 16 bits.
MegatronWriteOptions megatron_writing(
    const Portable& portable,
    const ConvertOptions& options) {
  const auto type = options.type || portable.optimizer_states.empty()
      ? options.type
      : portable.trained_in;
  MegatronWriteOptions writing{
      .split = options.split,
      .format = options.megatron_format,
      .names = megatron_names_of(portable, options),
      .type = type,
      .iteration = portable.released || portable.steps == 0
          ? std::nullopt
          : std::optional(portable.steps),
      .vocabulary_multiple = options.vocabulary_multiple,
      .args = portable.megatron_args,
      .others = portable.megatron_others,
      .samples = portable.samples,
      .validation_samples = portable.validation_samples.value_or(0)};
  writing.optimizer = megatron_optimizer(portable, options, type);
  return writing;
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
      megatron_writing(portable, options));
}

void to_megatron_deepspeed(
    Portable& portable,
    const fs::path& folder,
    const ConvertOptions& options) {
  const model::ModelDescription& description =
      description_of(portable, CheckpointFormat::megatron);
  const bool pipeline =
      *options.megatron_deepspeed == MegatronDeepSpeed::pipeline;
  const bool trained = !portable.optimizer_states.empty();
  const megatron::DeepSpeedForm form{
      .pipeline = pipeline,
      .universal = options.universal,
      .grouped_heads = options.megatron_deepspeed_grouped,
      .stage = options.zero_stage.value_or(
          !trained       ? 0
              : pipeline ? 1
                         : 2),
      .ranks = options.zero_ranks};
  DeepSpeedState counters{
      .global_steps = portable.steps,
      .skipped_steps = portable.skipped_steps,
      .global_samples = portable.samples,
      .loss_scaler = portable.loss_scaler};
  if (portable.config.is(Kind::dict)) {
    counters.config = portable.config;
  }
  MegatronWriteOptions writing = megatron_writing(portable, options);
  writing.type = trained_type(portable, options);
  if (!decoupled_options(portable).is_none()) {
    portable.left_out.push_back(
        "the learning rate of word embeddings and the output layer, which "
        "Megatron-DeepSpeed trains with that of all others");
  }
  note_state(portable);
  megatron::write_under_deepspeed(
      folder,
      description,
      portable.parameters,
      writing,
      form,
      counters);
}

void to_huggingface(
    Portable& portable,
    const fs::path& folder,
    const ConvertOptions& options) {
  const model::ModelDescription& description =
      description_of(portable, CheckpointFormat::huggingface);
  if (!portable.optimizer_states.empty()) {
    portable.left_out.push_back("optimizer states");
  }
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
      format == CheckpointFormat::megatron ||
      format == CheckpointFormat::torch || format == CheckpointFormat::dcp;
}

void leave_out_states(Portable& portable, const ConvertOptions& options) {
  if (portable.optimizer_states.empty() || !holds_states(options.to)) {
    return;
  }
  const bool megatron = options.to == CheckpointFormat::megatron ||
      options.megatron_deepspeed.has_value();
  const bool gpt = portable.description &&
      (portable.description->family == model::ModelFamily::gpt2 ||
       portable.description->family == model::ModelFamily::llama);
  // The optimizer's states of a BERT and a T5 have an order that is known under
  // Megatron-Core's names alone.
  const MegatronNames names =
      megatron_names_of(portable, options).value_or(MegatronNames::legacy);
  const bool core = options.to == CheckpointFormat::megatron &&
      names != MegatronNames::legacy;
  if (megatron && !((gpt || core) && has_adam(portable))) {
    portable.left_out.push_back(
        gpt || core ? "optimizer states: only Adam's are written for Megatron"
            : options.to == CheckpointFormat::megatron
            ? "optimizer states: those of BERT and T5 are written under the "
              "names of Megatron-Core alone (--megatron-names core)"
            : "optimizer states: those of BERT and T5 are not written for "
              "Megatron-DeepSpeed");
    portable.optimizer_states.clear();
    return;
  }
  if (portable.padding > 0) {
    portable.left_out.push_back(fmt::format(
        "{} rows of the vocabulary's padding, which the run trained with the "
        "others; without them its losses change a little (--keep-padding keeps "
        "them)",
        portable.padding));
  }
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
          ? parameters + rest
          : (parameters + rest) *
              static_cast<std::uint64_t>(options.split.tensor);
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
      if (options.megatron_deepspeed) {
        to_megatron_deepspeed(portable, place, options);
      } else {
        to_deepspeed(portable, place, options);
      }
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
      note_state(portable);
      write_dcp(place, portable, options);
      return;
    case CheckpointFormat::safetensors:
      break;
  }
  throw ConfigError(
      {.what = "such files are only read",
       .values = std::string(name_of(options.to)),
       .remedy = "Hugging Face's and native folders hold safetensors files"});
}

} // namespace cairn::checkpoints
