#include "pretrain/model/foreign_checkpoint.h"

#include "pretrain/internal/megatron_reading.h"
#include "pretrain/internal/same_model.h"
#include "pretrain/model/read_stored.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/checkpoint_format.h>
#include <cairn/optim/rule.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>

namespace cairn::pretrain {

namespace {

using checkpoints::CheckpointFormat;
using checkpoints::ForeignTraining;
using model::ModelDescription;

/// Refuses formats of weights alone.
void expect_training(CheckpointFormat format, const std::string& place) {
  if (format != CheckpointFormat::huggingface &&
      format != CheckpointFormat::safetensors) {
    return;
  }
  throw ConfigError(
      {.what = "the checkpoint has weights, and no training to go on from",
       .where = "--load " + place,
       .values = std::string(checkpoints::name_of(format)),
       .remedy = "add --finetune to start anew from its weights"});
}

/// Refuses a checkpoint without the optimizer's states, as Megatron does.
void expect_optimizer(
    const ForeignTraining& training,
    const std::string& place) {
  if (training.optimizer) {
    return;
  }
  throw ConfigError(
      {.what = "the optimizer's states are not there, or cannot be read",
       .where = "--load " + place,
       .values = fmt::format("{}", fmt::join(training.left_out, "; ")),
       .remedy = "add --no-load-optim to go on with a new optimizer, or "
                 "--finetune to start anew from the weights"});
}

ForeignTraining open(
    const config::Config& config,
    const std::string& place,
    bool finetune) {
  const config::CheckpointFlags& flags = config.flags.checkpointing;
  checkpoints::ForeignTrainingOptions options{
      .input = place,
      .step = flags.ckpt_step,
      .megatron = megatron_reading(config.flags.model),
      .optimizer = !finetune && !flags.no_load_optim};
  // The peer's softmax has the padding in it, and goes on with it.
  options.megatron.keep_padding = !finetune;
  options.optimizer_name =
      std::string(optim::make_rule(config.deepspeed.optimizer)->name());
  ForeignTraining training = checkpoints::open_training(options);
  if (!training.description) {
    throw CheckpointError(
        {.what = "a checkpoint that does not say what its model is",
         .where = place,
         .remedy = "save it with `cairn pretrain`, or pass .description to "
                   "cairn::initialize()"});
  }
  return training;
}

} // namespace

std::optional<ForeignCheckpoint> foreign_checkpoint(
    const config::Config& config,
    const ModelDescription& described) {
  const config::CheckpointFlags& flags = config.flags.checkpointing;
  if (!flags.load) {
    return std::nullopt;
  }
  const std::string& place = *flags.load;
  const auto format = stored_format(flags);
  if (!format || format == CheckpointFormat::native) {
    return std::nullopt;
  }
  if (!flags.finetune) {
    expect_training(*format, place);
  }
  ForeignCheckpoint checkpoint{
      .training = open(config, place, flags.finetune),
      .weights_only = flags.finetune};
  checkpoint.weights_only |= checkpoint.training.released;
  refuse_differences(
      place,
      model_differences(
          *checkpoint.training.description,
          as_stored(
              described,
              *checkpoint.training.description,
              config.flags)));
  if (!checkpoint.weights_only && !flags.no_load_optim) {
    expect_optimizer(checkpoint.training, place);
  }
  return checkpoint;
}

std::optional<ModelDescription> own_model(const config::Flags& flags) {
  if (stored_format(flags.checkpointing) != CheckpointFormat::native) {
    return std::nullopt;
  }
  try {
    return read_stored(CheckpointFormat::native, flags).description;
  } catch (const Error&) { // the engine says what is wrong with it
    return std::nullopt;
  }
}

ModelDescription as_stored(
    ModelDescription described,
    const ModelDescription& stored,
    const config::Flags& flags) {
  using enum model::ActivationKind;
  const bool forms_of_gelu = !flags.model.openai_gelu && !stored.gated &&
      (stored.activation == gelu || stored.activation == gelu_tanh) &&
      (described.activation == gelu || described.activation == gelu_tanh);
  if (forms_of_gelu) {
    described.activation = stored.activation;
  }
  return described;
}

} // namespace cairn::pretrain
