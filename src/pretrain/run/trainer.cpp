#include "pretrain/run/trainer.h"

#include "monitor/internal/profiled_steps.h"
#include "pretrain/plan/flags_schedule.h"
#include "pretrain/run/repeatable_pass.h"
#include "pretrain/run/restore_run.h"

#include <fmt/format.h>

#include <utility>

namespace cairn::pretrain {

using data::Split;

namespace {

/// The options of profiler traces; empty if no step of this rank is profiled.
std::optional<monitor::ProfilerTraces::Options> traces_of(
    const RunParts& parts) {
  const config::LoggingFlags& flags = parts.config.flags.logging;
  const int rank = parts.world.rank();
  const auto steps = monitor::profiled_steps(flags, rank);
  if (steps.empty()) {
    return std::nullopt;
  }
  using Devices = monitor::ProfilerTraces::Devices;
  return monitor::ProfilerTraces::Options{
      .steps = steps,
      .folder = monitor::profiling_folder(flags),
      .rank = rank,
      .devices = parts.engine.device().is_cuda() ? Devices::cpu_and_gpu
                                                 : Devices::cpu};
}

} // namespace

Trainer::Trainer(RunParts parts)
    : parts_(std::move(parts)),
      stop_(parts_.config.flags.training, parts_.world.group()) {}

Outcome Trainer::run() {
  begin();
  const config::ValidationFlags& validation = parts_.config.flags.validation;
  Outcome outcome{.iteration = iteration()};
  if (validation.skip_train) {
    evaluate(Split::valid, fmt::format("iteration {}", iteration()));
  } else if (iteration() >= parts_.plan.iterations) {
    outcome.ended = Ended::nothing_to_do;
  } else {
    outcome.ended = train().value_or(Ended::done);
    save();
    log_->say_memory(); // again: now the most is known
  }
  if (outcome.ended == Ended::done) {
    evaluate(Split::test, "the end of training for test data");
  }
  parts_.engine.finish_checkpoint();
  log_->finish(outcome.ended);
  outcome.iteration = iteration();
  return outcome;
}

void Trainer::begin() {
  const Restored restored = restore_run(parts_);
  saved_at_ = restored.iteration;
  batches_.emplace(parts_, restored.consumed_validation);
  log_.emplace(parts_);
  records_ = records_passes(
      parts_.config,
      parts_.world.group().backend(),
      parts_.engine.device());
  if (auto options = traces_of(parts_)) {
    traces_.emplace(std::move(*options));
  }
}

bool Trainer::is_due(const std::optional<std::int64_t>& interval) const {
  return interval && *interval > 0 && iteration() % *interval == 0;
}

std::optional<Ended> Trainer::train() {
  const config::Flags& flags = parts_.config.flags;
  while (iteration() < parts_.plan.iterations) {
    step();
    log_->after_step();
    if (is_due(flags.validation.eval_interval) &&
        iteration() < parts_.plan.iterations) {
      evaluate(Split::valid, fmt::format("iteration {}", iteration()));
    }
    if (is_due(flags.checkpointing.save_interval)) {
      save();
    }
    if (const auto ended = stop_.after(iteration())) {
      return ended;
    }
  }
  evaluate(Split::valid, fmt::format("iteration {}", iteration()));
  return std::nullopt;
}

void Trainer::step() {
  Engine& engine = parts_.engine;
  engine.set_train_batch_size(
      parts_.plan.batch_size.at(engine.progress().global_samples).running);
  batches_->begin_step();
  const std::int64_t number = iteration() + 1;
  engine.count_zeros_in_gradient(
      parts_.config.flags.logging.num_zeros_in_grad && log_->shows(number));
  if (traces_) {
    traces_->begin(number);
  }
  engine.train_batch(passes_of([this] { return batches_->next_training(); }));
  log_->add(engine.loss_parts());
  if (traces_) {
    if (const auto file = traces_->end(number)) {
      parts_.logger.info("profile of steps in {}", file->string());
    }
  }
}

/// The batches, as a model in one piece and as pipeline stages take them.
BatchPasses Trainer::passes_of(std::function<models::ModelInput()> next) {
  BatchPasses::Forward forward = [this, next] {
    auto output = parts_.engine.forward<models::ModelOutput>(next());
    return BatchLoss(std::move(output.loss), std::move(output.losses));
  };
  BatchPasses passes{std::move(forward), batches_->micro_batches_of(next)};
  if (records_) {
    passes.set_repeatable(repeatable_pass(
        parts_.engine,
        std::move(next),
        parts_.config.flags.training.cuda_graph_warmup_steps));
  }
  return passes;
}

void Trainer::evaluate(Split split, const std::string& at) {
  const auto& data = parts_.data[split];
  if (!data || data->samples == 0 || parts_.plan.eval_iterations == 0) {
    return;
  }
  std::optional<monitor::TrainingLog::Pause> pause;
  if (log_->log()) {
    pause.emplace(*log_->log());
  }
  Engine& engine = parts_.engine;
  const std::int64_t passes = parts_.plan.eval_batch /
      (engine.settings().train_micro_batch_size_per_gpu *
       parts_.mesh.degree(distributed::Axis::data));
  const BatchPasses batches = passes_of([&] { return batches_->next(split); });
  RunReporter::Evaluation evaluation{.split = split, .at = at};
  for (std::int64_t i = 0; i < parts_.plan.eval_iterations; ++i) {
    engine.eval_batch(batches, passes);
    evaluation.losses.add(engine.loss_parts());
  }
  if (split == Split::valid) {
    batches_->count_validation(
        parts_.plan.eval_iterations * parts_.plan.eval_batch);
  }
  log_->evaluated(std::move(evaluation));
}

void Trainer::save() {
  const config::CheckpointFlags& flags = parts_.config.flags.checkpointing;
  if (!flags.save || saved_at_ == iteration()) {
    return;
  }
  std::optional<monitor::TrainingLog::Pause> pause;
  if (log_->log()) {
    pause.emplace(*log_->log());
  }
  parts_.engine.save_checkpoint(
      *flags.save,
      std::nullopt,
      {{"consumed_train_tokens", parts_.tokens()},
       {"schedule", schedule_description(parts_.config, parts_.plan)},
       {"consumed_validation_samples", batches_->consumed_validation()}},
      {.optimizer = !flags.no_save_optim, .rng = !flags.no_save_rng});
  saved_at_ = iteration();
}

} // namespace cairn::pretrain
