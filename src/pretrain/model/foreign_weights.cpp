#include "pretrain/model/foreign_weights.h"

#include "pretrain/internal/megatron_reading.h"
#include "pretrain/internal/same_model.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/checkpoint_format.h>
#include <fmt/format.h>

#include <string>
#include <utility>

namespace cairn::pretrain {

namespace {

using checkpoints::CheckpointFormat;
using model::ModelDescription;

std::optional<CheckpointFormat> format_there(const std::string& place) {
  try {
    return checkpoints::detect_checkpoint_format(place);
  } catch (const CheckpointError&) { // no checkpoint yet
    return std::nullopt;
  }
}

} // namespace

std::optional<models::StoredModel> foreign_weights(
    const config::Flags& all_flags,
    const ModelDescription& described) {
  const config::CheckpointFlags& flags = all_flags.checkpointing;
  if (!flags.load) {
    return std::nullopt;
  }
  const auto format = format_there(*flags.load);
  if (!format || format == CheckpointFormat::native) {
    return std::nullopt;
  }
  if (!flags.finetune) {
    throw ConfigError(
        {.what = "training does not go on from a checkpoint of another format",
         .where = "--load " + *flags.load,
         .values = std::string(checkpoints::name_of(*format)),
         .remedy = fmt::format(
             "add --finetune to start anew from its weights, or run `cairn "
             "convert --input {} --output DIR --to native` and load DIR, with "
             "the optimizer's states where it has them",
             *flags.load)});
  }
  models::StoredModel stored = models::open_model(
      *flags.load,
      flags.ckpt_step,
      megatron_reading(all_flags.model));
  refuse_differences(
      *flags.load,
      model_differences(stored.description, described));
  return stored;
}

} // namespace cairn::pretrain
