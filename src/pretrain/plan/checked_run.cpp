#include "pretrain/plan/checked_run.h"

#include "config/internal/actors.h"
#include "config/internal/check_kind.h"
#include "config/internal/describe_model.h"
#include "config/internal/expert_layers.h"
#include "pretrain/internal/pretraining_data.h"
#include "pretrain/internal/stages.h"
#include "pretrain/model/foreign_checkpoint.h"
#include "pretrain/plan/check_curriculum.h"
#include "pretrain/plan/flags_schedule.h"
#include "pretrain/run/state_norms.h"

#include <cairn/base/error.h>
#include <cairn/optim/rule.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

/// Refuses optimizers that look at whole parameters: they would take a stack of
/// experts for one parameter.
void check_experts(const config::Config& config) {
  if (!config::has_experts(config.flags.moe)) {
    return;
  }
  const auto rule = optim::make_rule(config.deepspeed.optimizer);
  if (rule->scope() != optim::Scope::elementwise) {
    throw ConfigError(
        {.what = "experts are stacked, and this optimizer looks at whole "
                 "parameters",
         .where = "--num-experts",
         .values = std::string(rule->name()),
         .remedy = "choose one that looks at elements, such as AdamW"});
  }
}

/// Refuses flags that contradict each other or ask for a missing feature.
void check_flags(Kind kind, const config::Config& config) {
  config::refuse_unused_flags(config, config::Actor::pretrain);
  const config::Flags& flags = config.flags;
  if (flags.distributed.overlap_param_gather &&
      config.deepspeed.zero.stage == config::ZeroStage::disabled) {
    throw ConfigError(
        {.what = "updated parameters are not gathered at ZeRO stage 0",
         .where = "--overlap-param-gather",
         .remedy = "add --use-distributed-optimizer, or --zero-stage 1 or 2"});
  }
  if (flags.logging.optimizer_states_to_tensorboard) {
    require_moments(config.deepspeed.optimizer);
  }
  check_experts(config);
  config::check_kind(kind, config);
}

/// Lines about flags that change nothing in training.
std::vector<std::string> notes_of(const config::Config& config) {
  std::vector<std::string> notes;
  if (config.given.contains("--data-impl")) {
    notes.emplace_back(
        "--data-impl has no effect in training: the files say their format");
  }
  return notes;
}

} // namespace

CheckedRun check_run(Kind kind, const config::Config& config) {
  check_flags(kind, config);
  CheckedRun run{
      .plan = plan_run(config),
      .schedule = {},
      .tokenizer = open_tokenizer(kind, config.flags),
      .description = {},
      .foreign = {},
      .notes = {}};
  check_curriculum(config, run.plan);
  run.notes = notes_of(config);
  if (std::string note = settle_schedule(config, run.plan); !note.empty()) {
    run.notes.push_back(std::move(note));
  }
  run.schedule = flags_schedule(config, run.plan);
  run.description = config::describe_model(
      kind,
      config.flags,
      static_cast<std::int64_t>(run.tokenizer->vocab_size()));
  run.foreign = foreign_checkpoint(config, run.description);
  const auto stored =
      run.foreign ? run.foreign->training.description : own_model(config.flags);
  if (stored) {
    const std::int64_t vocabulary = run.foreign
        ? stored->vocabulary
        : std::max(stored->vocabulary, run.description.vocabulary);
    run.description = as_stored(
        config::describe_model(kind, config.flags, vocabulary),
        *stored,
        config.flags);
  }
  check_stages(
      run.description,
      config,
      pretraining_inputs(run.description, config.flags));
  return run;
}

} // namespace cairn::pretrain
