#pragma once

#include "evaluate/finetune/finetune_task.h"

#include <cairn/config/config.h>
#include <cairn/model/description.h>
#include <cairn/models/load_model.h>
#include <cairn/nn/later_values.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace cairn::evaluate {

/// The model that a fine-tuning starts with, before it is built.
struct StartingModel {
  /// BERT without the heads of pretraining, with the dropout of the flags.
  model::ModelDescription description;
  /// The weights of --pretrained-checkpoint; unset where there are none, or
  /// where --load has a fine-tuning to go on with.
  std::optional<models::StoredModel> pretrained{};
  /// True when --load has a checkpoint of this task.
  bool goes_on = false;
};

/// The checkpoint that says what the model is: the one of --load if it is
/// there, else --pretrained-checkpoint; nullopt without both.
std::optional<std::filesystem::path> checkpoint_of(const config::Flags& flags);

/// The model of checkpoint_of(), which flags that are given must agree with;
/// without a checkpoint the flags describe it. Throws ConfigError, and
/// CheckpointError for a checkpoint that cannot be read.
StartingModel starting_model(
    const FinetuneTask& task,
    const config::Config& config,
    std::int64_t vocabulary);

/// Notes where the pretrained values of the module's parameters are. Heads of
/// pretraining are left behind; a pooler, token types or a head that the
/// checkpoint does not have keep their initial values. Returns a text that says
/// which do.
std::string load_pretrained(
    const StartingModel& start,
    const torch::nn::Module& module,
    const FinetuneTask& task,
    nn::LaterValues& later);

} // namespace cairn::evaluate
