#include "evaluate/finetune/starting_model.h"

#include "config/internal/describe_model.h"
#include "evaluate/finetune/task_model.h"
#include "models/internal/load_weights.h"
#include "pretrain/internal/megatron_reading.h"
#include "pretrain/internal/same_model.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/checkpoint_format.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::evaluate {
namespace {

using checkpoints::CheckpointFormat;
using model::ModelDescription;

constexpr std::string_view head_weight = "classification.weight";

std::optional<CheckpointFormat> format_there(const std::string& place) {
  try {
    return checkpoints::detect_checkpoint_format(place);
  } catch (const CheckpointError&) { // no checkpoint yet
    return std::nullopt;
  }
}

/// Rows of a checkpoint's head; nullopt if it has none.
std::optional<std::int64_t> head_rows(const models::StoredModel& stored) {
  for (const auto& [name, tensor] : stored.tensors) {
    if (name == head_weight && !tensor.shape.empty()) {
      return tensor.shape.front();
    }
  }
  return std::nullopt;
}

/// The model that the flags describe; values that they do not give are the
/// checkpoint's.
ModelDescription described(
    const config::Config& config,
    const ModelDescription& stored,
    std::int64_t vocabulary) {
  config::Flags flags = config.flags;
  const auto fill = [](std::optional<std::int64_t>& flag, std::int64_t value) {
    flag = flag.value_or(value);
  };
  fill(flags.model.num_layers, stored.layers);
  fill(flags.model.hidden_size, stored.hidden);
  fill(flags.model.num_attention_heads, stored.heads);
  fill(flags.model.max_position_embeddings, stored.positions);
  return config::describe_model(model::ModelKind::bert, flags, vocabulary);
}

void check_model(const std::string& where, const ModelDescription& d) {
  if (d.family != model::ModelFamily::bert) {
    throw ConfigError(
        {.what = "only BERT is fine-tuned on tasks",
         .where = where,
         .values = fmt::format("the model is {}", model::name_of(d.family)),
         .remedy = "give the checkpoint of a BERT"});
  }
  if (model::has_experts(d)) {
    throw ConfigError(
        {.what = "a BERT with experts is not fine-tuned on tasks",
         .where = where});
  }
}

/// Throws ConfigError for flags that are given and say something else than the
/// checkpoint.
void check_flags(
    const std::string& where,
    const ModelDescription& stored,
    const config::Config& config,
    std::int64_t vocabulary) {
  auto differences = pretrain::model_differences(
      stored,
      described(config, stored, vocabulary));
  const auto not_said = [&](std::string_view flag) {
    return flag.starts_with("--") && !config.given.contains(std::string(flag));
  };
  std::erase_if(differences, [&](const pretrain::ModelDifference& difference) {
    return std::ranges::all_of(difference.flags, not_said);
  });
  pretrain::refuse_differences(where, differences);
}

/// The description of a checkpoint's model as it is trained: without the heads
/// of pretraining, and with what the flags decide.
ModelDescription for_training(ModelDescription d, const config::Flags& flags) {
  d = without_pretraining_heads(std::move(d));
  d.token_types = std::max<std::int64_t>(d.token_types, 2);
  d.dropout = flags.regularization.hidden_dropout;
  d.attention_dropout = flags.regularization.attention_dropout;
  d.padded_vocabulary = model::padded_vocabulary(
      d.vocabulary,
      flags.model.make_vocab_size_divisible_by *
          flags.distributed.tensor_parallel);
  return d;
}

models::StoredModel opened(
    const std::string& place,
    const config::Config& config,
    std::optional<std::int64_t> step = std::nullopt) {
  models::StoredModel stored = models::open_model(
      place,
      step,
      pretrain::megatron_reading(config.flags.model));
  check_model(place, stored.description);
  return stored;
}

/// Throws ConfigError for a checkpoint that --load cannot go on with.
void check_resumed(
    const std::string& place,
    const FinetuneTask& task,
    const models::StoredModel& stored) {
  const auto rows = head_rows(stored);
  if (stored.format != CheckpointFormat::native || !rows) {
    throw ConfigError(
        {.what = "the checkpoint is not one of a fine-tuning",
         .where = "--load " + place,
         .values = std::string(checkpoints::name_of(stored.format)),
         .remedy = "name pretrained weights by --pretrained-checkpoint"});
  }
  if (*rows != task.outputs()) {
    throw ConfigError(
        {.what = "the checkpoint was fine-tuned for another task",
         .where = "--load " + place,
         .values = fmt::format(
             "its head has {} outputs, {} has {}",
             *rows,
             task.name,
             task.outputs()),
         .remedy = "start from it with --pretrained-checkpoint, which takes "
                   "all but the head"});
  }
}

} // namespace

std::optional<std::filesystem::path> checkpoint_of(const config::Flags& flags) {
  const config::CheckpointFlags& from = flags.checkpointing;
  if (from.load && format_there(*from.load)) {
    return *from.load;
  }
  return from.pretrained_checkpoint
      ? std::optional<std::filesystem::path>(*from.pretrained_checkpoint)
      : std::nullopt;
}

StartingModel starting_model(
    const FinetuneTask& task,
    const config::Config& config,
    std::int64_t vocabulary) {
  const config::CheckpointFlags& from = config.flags.checkpointing;
  const auto place = checkpoint_of(config.flags);
  if (from.load && from.exit_on_missing_checkpoint &&
      (!place || *place != *from.load)) {
    throw CheckpointError(
        {.what = "there is no checkpoint to go on from",
         .where = *from.load,
         .remedy = "leave out --exit-on-missing-checkpoint to start anew"});
  }
  if (!place) {
    return {for_training(
        config::describe_model(
            model::ModelKind::bert,
            config.flags,
            vocabulary),
        config.flags)};
  }
  const std::string name = place->string();
  const bool goes_on = from.load && name == *from.load;
  models::StoredModel stored =
      opened(name, config, goes_on ? from.ckpt_step : std::nullopt);
  if (goes_on) {
    check_resumed(name, task, stored);
  }
  check_flags(name, stored.description, config, vocabulary);
  StartingModel start{for_training(stored.description, config.flags)};
  start.goes_on = goes_on;
  if (!goes_on) {
    start.pretrained = std::move(stored);
  }
  return start;
}

std::string load_pretrained(
    const StartingModel& start,
    const torch::nn::Module& module,
    const FinetuneTask& task,
    nn::LaterValues& later) {
  std::set<std::string> wanted{"classification.weight", "classification.bias"};
  if (head_rows(*start.pretrained) != task.outputs()) {
    wanted.clear();
  }
  for (const auto& parameter : model::model_parameters(start.description)) {
    wanted.insert(parameter.name);
  }
  checkpoints::NamedTensors tensors;
  std::set<std::string> there;
  for (const auto& each : start.pretrained->tensors) {
    if (wanted.contains(each.first)) {
      tensors.push_back(each);
      there.insert(each.first);
    }
  }
  constexpr std::string_view new_ones[] = {
      "embedding.token_type.",
      "pooler.",
      "classification."};
  const auto starts_anew = [&](std::string_view name) {
    return std::ranges::any_of(new_ones, [&](std::string_view begin) {
      return name.starts_with(begin);
    });
  };
  models::load_weights_later(
      module,
      start.description,
      tensors,
      later,
      starts_anew);
  std::vector<std::string_view> names;
  for (const std::string_view name : new_ones) {
    if (!there.contains(std::string(name) + "weight")) {
      names.push_back(name.substr(0, name.size() - 1));
    }
  }
  return names.empty() ? "nothing is new"
                       : fmt::format("new: {}", fmt::join(names, ", "));
}

} // namespace cairn::evaluate
