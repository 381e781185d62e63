#include "checkpoints/convert/dcp.h"
#include "checkpoints/convert/native.h"
#include "checkpoints/convert/torch_place.h"
#include "checkpoints/convert/universal.h"
#include "checkpoints/deepspeed/tag_files.h"
#include "checkpoints/deepspeed/universal_files.h"
#include "checkpoints/internal/portable_checkpoint.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/is_buffer.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/deepspeed.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/safetensors.h>
#include <cairn/checkpoints/torch_file.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <map>
#include <memory>
#include <set>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using Kind = PythonValue::Kind;

/// Sorts weights into parameters and buffers, and drops second names.
void sort_in(
    const NamedTensors& weights,
    const std::set<std::string>& buffers,
    Portable& portable) {
  std::set<std::string> tied;
  for (const Tie& tie : portable.ties) {
    tied.insert(tie.first);
  }
  for (const auto& named : weights) {
    if (buffers.contains(named.first)) {
      portable.buffers.push_back(named);
    } else if (!tied.contains(named.first)) {
      portable.parameters.push_back(named);
    }
  }
}

/// Takes Cairn's own members out of a dict.
PythonValue without_own(const PythonValue& dict, Portable& portable) {
  std::vector<PythonValue::Entry> kept;
  for (const auto& entry : dict.entries()) {
    const std::string key =
        entry.first.is(Kind::text) ? entry.first.text() : "";
    if (key == description_key) {
      portable.description = model::model_description_from_json(
          entry.second.text(),
          description_key);
    } else if (key == schedule_key) {
      portable.schedule_samples = entry.second.integer();
    } else if (key == optimizer_key) {
      portable.optimizer = entry.second.text();
    } else {
      kept.push_back(entry);
    }
  }
  return PythonValue::dict(std::move(kept));
}

void note_optimizer(Portable& portable) {
  portable.left_out.push_back("optimizer states, which are not read there");
}

Portable from_megatron(
    const fs::path& folder,
    MegatronReadOptions reading,
    const ConvertOptions& options) {
  reading.optimizer = !options.weights_only && holds_states(options.to);
  MegatronCheckpoint saved = read_megatron(folder, reading);
  Portable portable{
      .description = std::move(saved.description),
      .parameters = std::move(saved.tensors)};
  portable.ties = model::model_ties(*portable.description);
  portable.steps = saved.iteration.value_or(0);
  portable.released = !saved.iteration;
  portable.samples = saved.samples;
  portable.validation_samples = saved.validation_samples;
  portable.schedule_samples = saved.schedule_samples;
  portable.skipped_steps = saved.skipped_steps;
  portable.megatron_args = std::move(saved.args);
  portable.megatron_others = std::move(saved.others);
  portable.megatron_names = saved.names;
  portable.random_states = saved.has_random_states;
  portable.seed = saved.seed;
  portable.optimizer_states = std::move(saved.optimizer_states);
  portable.groups = std::move(saved.groups);
  portable.loss_scaler = std::move(saved.loss_scaler);
  const model::ModelDescription& d = *portable.description;
  if (!portable.optimizer_states.empty() &&
      d.padded_vocabulary > d.vocabulary) {
    portable.padding = d.padded_vocabulary - d.vocabulary;
  }
  if (!saved.optimizer_unread.empty()) {
    portable.left_out.push_back(
        fmt::format("optimizer states: {}", saved.optimizer_unread));
  } else if (saved.has_optimizer && !reading.optimizer) {
    portable.left_out.push_back("optimizer states");
  }
  for (std::size_t i = 0; i < saved.masters.size(); ++i) {
    portable.trained_in = portable.parameters[i].second.type;
    portable.parameters[i] = std::move(saved.masters[i]);
  }
  return portable;
}

/// True when DeepSpeed saved a model of Megatron's: with names in dicts in
/// dicts, or as a pipeline or a universal checkpoint with Megatron's args.
bool holds_megatron(const deepspeed::TagFiles& files) {
  if (files.models.empty() && files.zero_models.empty()) {
    return false;
  }
  const fs::path& path = files.models.empty() // at stage 3
      ? files.zero_models.begin()->second
      : files.models.begin()->second;
  const PythonValue file = read_torch_file(path);
  return in_file(path, [&] {
    if (!file.is(Kind::dict)) {
      return false;
    }
    if (!files.layers.empty() || deepspeed::is_universal(files.folder)) {
      const auto args = file.find("args");
      return args && args->is(Kind::object) && args->state().is(Kind::dict) &&
          args->find("padded_vocab_size").has_value();
    }
    const auto module = file.find("module");
    const auto model = module && module->is(Kind::dict)
        ? module->find("language_model")
        : std::nullopt;
    return model && model->is(Kind::dict);
  });
}

Portable from_layers(const DeepSpeedSource& source) {
  Portable portable{.parameters = read_deepspeed_layers(source)};
  note_optimizer(portable);
  return portable;
}

void read_optimizer(
    const DeepSpeedCheckpoint& saved,
    const ConvertOptions& options,
    Portable& portable) {
  std::map<std::string, LazyTensor> exact;
  try {
    for (auto& [name, tensor] : saved.masters()) {
      exact.emplace(name, std::move(tensor));
    }
    if (!options.weights_only) {
      portable.optimizer_states = saved.optimizer_states();
      portable.groups = saved.groups();
    }
  } catch (const CheckpointError&) {
    if (!options.weights_only) {
      throw;
    }
  }
  for (auto& [name, tensor] : portable.parameters) {
    if (const auto found = exact.find(name); found != exact.end()) {
      portable.trained_in = portable.trained_in.value_or(tensor.type);
      tensor = found->second;
    }
  }
}

Portable from_deepspeed(const ConvertOptions& options) {
  const DeepSpeedSource source{.folder = options.input, .tag = options.tag};
  const auto files = deepspeed::tag_files(source.folder, source.tag);
  if (holds_megatron(files)) {
    MegatronReadOptions reading = options.megatron;
    reading.iteration.reset();
    Portable portable = from_megatron(files.folder, reading, options);
    portable.megatron_names.reset(); // Megatron-DeepSpeed's, not Megatron's
    return portable;
  }
  if (deepspeed::is_universal(files.folder)) {
    Portable portable = read_universal_checkpoint(files.folder);
    portable.client = without_own(portable.client, portable);
    return portable;
  }
  const bool parallel = files.layers.empty()
      ? files.models.size() > 1
      : files.layers.rbegin()->first.first > 0;
  if (parallel) {
    throw CheckpointError(
        {.what = "a model in parts, and how they join is not known",
         .where = files.folder.string(),
         .values = fmt::format("{} model-parallel ranks", files.models.size()),
         .remedy = "only models of Megatron's are joined"});
  }
  if (!files.layers.empty()) {
    return from_layers(source);
  }
  const DeepSpeedCheckpoint saved(source);
  Portable portable{.ties = saved.ties()};
  const std::vector<std::string> buffers = saved.buffers();
  sort_in(saved.weights(), {buffers.begin(), buffers.end()}, portable);
  read_optimizer(saved, options, portable);
  portable.steps = saved.global_steps();
  portable.skipped_steps = saved.skipped_steps();
  portable.samples = saved.global_samples();
  portable.loss_scaler = saved.loss_scaler();
  portable.lr_scheduler = saved.lr_scheduler();
  portable.config = saved.config();
  portable.client = without_own(saved.client_state(), portable);
  return portable;
}

Portable from_huggingface(const fs::path& folder) {
  HuggingFaceModel model = read_huggingface(folder);
  Portable portable{
      .description = std::move(model.description),
      .parameters = std::move(model.tensors),
      .tokenizer = folder};
  portable.ties = model::model_ties(*portable.description);
  return portable;
}

Portable from_torch(const ConvertOptions& options) {
  const fs::path path = fs::is_directory(options.input)
      ? options.input / torch_file_name
      : options.input;
  TorchCheckpoint saved = read_torch_checkpoint(path);
  Portable portable{.ties = std::move(saved.ties)};
  std::set<std::string> buffers;
  for (const auto& [name, tensor] : saved.weights) {
    if (is_buffer(name, tensor.type)) {
      buffers.insert(name);
    }
  }
  sort_in(saved.weights, buffers, portable);
  portable.optimizer_states = std::move(saved.optimizer_states);
  portable.groups = std::move(saved.groups);
  portable.client =
      in_file(path, [&] { return without_own(saved.rest, portable); });
  if (const auto steps = portable.client.find("iteration");
      steps && steps->is(Kind::integer)) {
    portable.steps = steps->integer();
  }
  return portable;
}

Portable from_safetensors(const fs::path& path) {
  const auto file = std::make_shared<const SafetensorsFile>(path);
  Portable portable;
  for (const auto& [name, entry] : file->entries()) {
    auto& into =
        is_buffer(name, entry.type) ? portable.buffers : portable.parameters;
    into.emplace_back(name, lazy_tensor(file, name));
  }
  return portable;
}

Portable read(CheckpointFormat format, const ConvertOptions& options) {
  switch (format) {
    case CheckpointFormat::native:
      return read_native(options.input, options.tag);
    case CheckpointFormat::deepspeed:
      return from_deepspeed(options);
    case CheckpointFormat::megatron: {
      MegatronReadOptions reading = options.megatron;
      reading.iteration = options.iteration;
      return from_megatron(options.input, reading, options);
    }
    case CheckpointFormat::huggingface:
      return from_huggingface(options.input);
    case CheckpointFormat::torch:
      return from_torch(options);
    case CheckpointFormat::dcp:
      return read_dcp(options);
    case CheckpointFormat::safetensors:
      return from_safetensors(options.input);
  }
  throw InternalError({.what = "an unknown format"});
}

void refuse_choice(
    const char* what,
    CheckpointFormat format,
    const ConvertOptions& options) {
  throw ConfigError(
      {.what = fmt::format(
           "{} chooses nothing in a checkpoint of format \"{}\"",
           what,
           name_of(format)),
       .where = options.input.string()});
}

} // namespace

Portable read_portable(CheckpointFormat format, const ConvertOptions& options) {
  if (!options.tag.empty() && format != CheckpointFormat::native &&
      format != CheckpointFormat::deepspeed &&
      format != CheckpointFormat::dcp) {
    refuse_choice("a tag", format, options);
  }
  if (options.iteration && format != CheckpointFormat::megatron) {
    refuse_choice("an iteration", format, options);
  }
  Portable portable = read(format, options);
  if (options.weights_only) {
    portable.optimizer_states.clear();
    portable.groups.clear();
    portable.loss_scaler = {};
    portable.left_out.clear();
  }
  return portable;
}

std::vector<std::string> state_kinds(const Portable& portable) {
  std::set<std::string> kinds;
  for (const auto& [name, tensor] : portable.optimizer_states) {
    kinds.insert(name.substr(0, name.find('/')));
  }
  return {kinds.begin(), kinds.end()};
}

} // namespace cairn::checkpoints
