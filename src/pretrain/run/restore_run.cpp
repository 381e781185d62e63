#include "pretrain/run/restore_run.h"

#include "pretrain/run/token_schedule.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <variant>

namespace cairn::pretrain {

namespace {

LoadOptions load_options(const config::CheckpointFlags& flags) {
  if (flags.finetune) {
    return LoadOptions::weights_only();
  }
  return {
      .optimizer = !flags.no_load_optim,
      .schedule = !flags.no_load_lr_state,
      .rng = !flags.no_load_rng};
}

/// Goes on counting from the tokens of the checkpoint: another curriculum may
/// have cut its samples.
void restore_tokens(RunParts& parts, const ClientState& state) {
  RunPlan& plan = parts.plan;
  const std::int64_t planned = parts.tokens();
  const auto stored = state.find("consumed_train_tokens");
  const auto* counted = stored == state.end()
      ? nullptr
      : std::get_if<std::int64_t>(&stored->second);
  const std::int64_t tokens = counted == nullptr ? planned : *counted;
  if (tokens != planned && counts_tokens(parts.config.flags)) {
    throw ConfigError(
        {.what = "the checkpoint was trained with another --seq-length, "
                 "curriculum or batch, so lengths in tokens do not hold",
         .where = "consumed tokens",
         .values = fmt::format(
             "{} after {} samples; by these flags it would be {}",
             tokens,
             parts.engine.progress().global_samples,
             planned),
         .remedy = "give the lengths in iterations or samples, or begin anew "
                   "from its weights with --finetune"});
  }
  plan.tokens = count_tokens(
      plan,
      {.steps = parts.iteration(),
       .samples = parts.engine.progress().global_samples,
       .tokens = tokens});
}

} // namespace

Restored restore_run(RunParts& parts) {
  const config::CheckpointFlags& flags = parts.config.flags.checkpointing;
  const auto& from = flags.load;
  if (!from) {
    return {};
  }
  const bool speaks = parts.world.rank() == 0;
  if (parts.weights) {
    if (speaks) {
      parts.logger.info(
          "loaded the weights of {} (format {}): fine-tuning from iteration 0, "
          "with a new optimizer",
          *from,
          checkpoints::name_of(*parts.weights));
    }
    return {};
  }
  std::optional<std::string> tag;
  if (flags.ckpt_step) {
    tag = fmt::format("global_step{}", *flags.ckpt_step);
  }
  const auto [place, state] =
      parts.engine.load_checkpoint(*from, tag, load_options(flags));
  if (!place && flags.exit_on_missing_checkpoint) {
    throw CheckpointError(
        {.what = "there is no checkpoint to go on from",
         .where = *from,
         .remedy = "leave out --exit-on-missing-checkpoint to start from "
                   "scratch"});
  }
  Restored restored;
  const auto consumed = state.find("consumed_validation_samples");
  if (consumed != state.end() && !flags.finetune) {
    restored.consumed_validation = std::get<std::int64_t>(consumed->second);
  }
  if (place) {
    restored.iteration = parts.iteration();
    if (!flags.finetune) {
      restore_tokens(parts, state);
    }
    if (speaks) {
      parts.logger.info(
          "loaded {}: {} iteration {}, {} samples consumed",
          place->string(),
          flags.finetune ? "fine-tuning from" : "going on after",
          parts.iteration(),
          parts.engine.progress().global_samples);
    }
  }
  return restored;
}

} // namespace cairn::pretrain
