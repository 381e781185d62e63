#include "evaluate/finetune/finetune_plan.h"

#include "config/internal/actors.h"
#include "config/internal/check_kind.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <utility>

namespace cairn::evaluate {
namespace {

[[noreturn]] void refuse_missing(
    const char* flag,
    const char* what,
    const char* remedy) {
  throw ConfigError({.what = what, .where = flag, .remedy = remedy});
}

void check_flags(const config::Config& config) {
  config::refuse_unused_flags(config, config::Actor::finetune);
  config::check_kind(model::ModelKind::bert, config);
  const config::Flags& flags = config.flags;
  const config::ValidationFlags& given = flags.validation;
  if (!given.epochs) {
    refuse_missing(
        "--epochs",
        "the length of the fine-tuning is not said",
        "give it, such as --epochs 3; --epochs 0 evaluates only");
  }
  if (given.valid_data.empty()) {
    refuse_missing(
        "--valid-data",
        "there is nothing to evaluate on",
        "name the task's validation files");
  }
  if (*given.epochs > 0 && given.train_data.empty()) {
    refuse_missing(
        "--train-data",
        "there is nothing to train on",
        "name the task's training files, or evaluate only with --epochs 0");
  }
  if (flags.training.recomputes_parts()) {
    throw ConfigError(
        {.what = "only whole layers are computed again in fine-tuning",
         .where = "--recompute-granularity",
         .remedy = "use --recompute-granularity full"});
  }
  if (*given.epochs == 0 && !checkpoint_of(flags)) {
    throw ConfigError(
        {.what = "there is no model to evaluate",
         .where = "--load",
         .values = flags.checkpointing.load.value_or(""),
         .remedy = "name the folder that a fine-tuning was saved in"});
  }
}

std::int64_t sequence_length_of(
    const config::DataFlags& flags,
    const model::ModelDescription& d) {
  const std::int64_t length = flags.seq_length.value_or(d.positions);
  constexpr std::int64_t shortest = 4; // [CLS] a [SEP] and one more
  if (length < shortest || length > d.positions) {
    throw ConfigError(
        {.what = "samples of that length do not suit the model",
         .where = "--seq-length",
         .values = fmt::format(
             "{} tokens; the model has {} positions",
             length,
             d.positions)});
  }
  return length;
}

} // namespace

FinetunePlan plan_finetuning(const FinetuneOptions& options) {
  const config::Config& config = options.config;
  const FinetuneTask& task =
      finetune_task(config.flags.validation.task.value_or(""));
  check_flags(config);
  TaskTokenizer tokenizer =
      open_task_tokenizer(config.flags.tokenizer, checkpoint_of(config.flags));
  const auto vocabulary =
      static_cast<std::int64_t>(tokenizer.tokenizer->vocab_size());
  StartingModel start = starting_model(task, config, vocabulary);
  const std::int64_t length =
      sequence_length_of(config.flags.data, start.description);
  return {
      .task = task,
      .tokenizer = std::move(tokenizer),
      .start = std::move(start),
      .epochs = *config.flags.validation.epochs,
      .sequence_length = length};
}

} // namespace cairn::evaluate
