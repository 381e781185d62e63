#include "pretrain/run/restore_run.h"

#include "pretrain/run/token_schedule.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/checkpoint_format.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

std::int64_t consumed_validation_in(const ClientState& state) {
  const auto consumed = state.find("consumed_validation_samples");
  const auto* samples = consumed == state.end()
      ? nullptr
      : std::get_if<std::int64_t>(&consumed->second);
  return samples == nullptr ? 0 : *samples;
}

/// The parts of another program's checkpoint that the run goes on with.
std::string taken_parts(
    const checkpoints::ForeignTraining& training,
    const LoadOptions& options) {
  std::vector<std::string_view> parts{"the weights"};
  if (options.optimizer) {
    parts.push_back("the optimizer's states");
    if (training.loss_scaler) {
      parts.push_back("the loss scale");
    }
  }
  if (options.schedule && training.schedule) {
    parts.push_back("the schedule's place");
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// The parts that begin anew, and why.
std::string missing_parts(
    const checkpoints::ForeignTraining& training,
    const config::CheckpointFlags& flags) {
  std::vector<std::string> parts;
  if (flags.no_load_optim) {
    parts.emplace_back("the optimizer's states (--no-load-optim)");
  }
  if (flags.no_load_lr_state) {
    parts.emplace_back("the schedule's place (--no-load-lr-state)");
  } else if (!training.schedule) {
    parts.emplace_back(
        "the schedule's place, which follows from the iteration");
  }
  if (training.samples == 0) {
    parts.emplace_back(
        "the samples consumed, counted as the iterations times this run's "
        "batch");
  }
  if (training.random_states) {
    parts.emplace_back(
        flags.no_load_rng
            ? "random states (--no-load-rng)"
            : "random states (of Python, NumPy, PyTorch and CUDA: dropout and "
              "the order of the samples follow from --seed here)");
  }
  parts.insert(parts.end(), training.left_out.begin(), training.left_out.end());
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// Says it where the order of the samples will not be that of the run before:
/// the seed is what both programs make it from.
void compare_seeds(
    const RunParts& parts,
    const checkpoints::ForeignTraining& training) {
  const std::int64_t seed = parts.config.flags.training.seed;
  if (training.seed && *training.seed != seed) {
    parts.logger.info(
        "the run that saved it had --seed {0}, and this one has {1}: the "
        "samples that follow are those of an order from {1}",
        *training.seed,
        seed);
  }
}

/// Goes on from a checkpoint of another program.
Restored restore_foreign(RunParts& parts, const ForeignCheckpoint& foreign) {
  const config::CheckpointFlags& flags = parts.config.flags.checkpointing;
  const checkpoints::ForeignTraining& training = foreign.training;
  const std::string_view format = checkpoints::name_of(training.format);
  const bool speaks = parts.world.rank() == 0;
  if (foreign.weights_only) {
    if (speaks) {
      parts.logger.info(
          "loaded the weights of {} (format {}): fine-tuning from iteration 0, "
          "with a new optimizer",
          *flags.load,
          format);
    }
    return {};
  }
  const LoadOptions options = load_options(flags);
  const ClientState state =
      parts.engine.restore_state(*training.tensors, training.numbers, options);
  restore_tokens(parts, state);
  if (speaks) {
    parts.logger.info(
        "loaded {} (format {}): going on after iteration {}, {} samples "
        "consumed, with {}",
        *flags.load,
        format,
        parts.iteration(),
        parts.engine.progress().global_samples,
        taken_parts(training, options));
    if (const std::string missing = missing_parts(training, flags);
        !missing.empty()) {
      parts.logger.info("not taken over: {}", missing);
    }
    compare_seeds(parts, training);
  }
  return {
      .iteration = parts.iteration(),
      .consumed_validation = consumed_validation_in(state)};
}

} // namespace

Restored restore_run(RunParts& parts) {
  const config::CheckpointFlags& flags = parts.config.flags.checkpointing;
  const auto& from = flags.load;
  if (!from) {
    return {};
  }
  if (parts.foreign) {
    Restored restored = restore_foreign(parts, *parts.foreign);
    parts.foreign.reset(); // its files are closed
    return restored;
  }
  const bool speaks = parts.world.rank() == 0;
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
  if (!flags.finetune) {
    restored.consumed_validation = consumed_validation_in(state);
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
