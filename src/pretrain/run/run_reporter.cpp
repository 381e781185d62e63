#include "pretrain/run/run_reporter.h"

#include "config/internal/reference.h"
#include "engine/internal/device_memory.h"
#include "pretrain/plan/run_flops.h"
#include "pretrain/run/state_norms.h"
#include "zero/internal/sum_over.h"

#include <ATen/ops/full.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace cairn::pretrain {

namespace {

bool writes_files(const config::Config& config) {
  const config::LoggingFlags& flags = config.flags.logging;
  const config::DeepSpeedConfig& deepspeed = config.deepspeed;
  return flags.tensorboard_dir || flags.jsonl ||
      deepspeed.tensorboard.enabled || deepspeed.csv_monitor.enabled;
}

bool are_finite(const std::vector<monitor::NamedValue>& losses) {
  return std::ranges::all_of(losses, [](const auto& loss) {
    return std::isfinite(loss.value);
  });
}

} // namespace

int log_rank(const config::LoggingFlags& flags, int ranks) {
  return flags.log_rank == "last" ? ranks - 1 : 0;
}

RunReporter::RunReporter(RunParts& parts)
    : parts_(parts),
      times_(parts.config.flags.logging, parts.world.group(), parts.timers),
      reported_(parts.iteration()),
      tokens_reported_(parts.tokens()),
      times_reported_(parts.iteration()),
      skipped_before_(parts.engine.progress().skipped_steps) {
  const config::LoggingFlags& flags = parts_.config.flags.logging;
  if (parts_.world.rank() == log_rank(flags, parts_.world.size())) {
    open(flags);
  }
  // The ranks reduce their losses together, so they agree on when.
  const bool live = zero::sum_over(
                        parts_.world.group(),
                        at::full({1}, log_ && log_->live() ? 1 : 0, at::kLong))
                        .item<std::int64_t>() != 0;
  write_every_ = writes_files(parts_.config) ? flags.tensorboard_log_interval
                                             : flags.log_interval;
  report_every_ = std::gcd(flags.log_interval, write_every_);
  if (live && !parts_.engine.device().is_cuda()) {
    report_every_ = 1; // no device to wait for
  }
}

void RunReporter::open(const config::LoggingFlags& flags) {
  monitor::Monitor monitor(
      {.flags = flags,
       .tensorboard = parts_.config.deepspeed.tensorboard,
       .csv = parts_.config.deepspeed.csv_monitor,
       .arguments =
           {{"flags",
             config::flags_table(parts_.config, config::Actor::pretrain)},
            {"configuration",
             fmt::format("```\n{}\n```", parts_.config.json())}},
       .iteration = parts_.iteration(),
       .start =
           monitor::RunStart{
               .step = parts_.iteration(),
               .iterations = parts_.plan.iterations,
               .ranks = parts_.world.size(),
               .model = std::string(name_of(parts_.kind)),
               .versions = parts_.versions,
               .given = config::given_values(parts_.config),
               .configuration = parts_.config.json()}},
      parts_.logger);
  log_.emplace(
      monitor::TrainingLog::Options{
          .run =
              {.iterations = parts_.plan.iterations,
               .ranks = parts_.world.size()},
          .first_iteration = parts_.iteration(),
          .log_interval = flags.log_interval,
          .times_line = !flags.timing_log_option,
          .peak_flops = peak_flops(parts_)},
      std::move(monitor));
  if (const auto planned = log_event(parts_.prediction, parts_.iteration())) {
    log_->event(*planned);
  }
}

bool RunReporter::shows(std::int64_t iteration) const {
  return iteration % parts_.config.flags.logging.log_interval == 0 ||
      iteration % write_every_ == 0;
}

std::vector<monitor::NamedValue> RunReporter::mean(LossMeter& meter) const {
  return meter.mean(parts_.mesh.data_context());
}

void RunReporter::after_step() {
  const std::int64_t iteration = parts_.iteration();
  flops_ += flops_per_sample(parts_, parts_.plan.length_at(iteration)) *
      static_cast<double>(parts_.engine.settings().train_batch_size);
  if (iteration % report_every_ == 0 || iteration == parts_.plan.iterations) {
    report();
  }
}

/// The values of the last `iterations` iterations.
monitor::IterationValues RunReporter::values(std::int64_t iterations) {
  Engine& engine = parts_.engine;
  const config::LoggingFlags& flags = parts_.config.flags.logging;
  const EngineProgress progress = engine.progress();
  const std::int64_t length = parts_.plan.length_at(parts_.iteration());
  monitor::IterationValues values{
      .iteration = parts_.iteration(),
      .iterations = iterations,
      .consumed_samples = progress.global_samples,
      .consumed_tokens = parts_.tokens(),
      .batch_size = engine.settings().train_batch_size,
      .sequence_length = length,
      .curriculum_length =
          parts_.plan.curriculum ? std::optional(length) : std::nullopt,
      .kept_length = parts_.plan.kept_at(parts_.iteration()),
      .learning_rate = progress.learning_rates.front(),
      .losses = mean(losses_),
      .grad_norm = engine.gradient_norm(),
      .zeros_in_grad = progress.zeros_in_gradient,
      .skipped = progress.skipped_steps -
          std::exchange(skipped_before_, progress.skipped_steps),
      .flops = std::exchange(flops_, 0) /
          static_cast<double>(std::max<std::int64_t>(1, iterations)),
      .timers = times_.take(std::max<std::int64_t>(1, iterations))};
  const std::int64_t trained =
      parts_.tokens() - std::exchange(tokens_reported_, parts_.tokens());
  if (trained > 0 && iterations > 0) { // no roll-back in between
    values.tokens =
        static_cast<double>(trained) / static_cast<double>(iterations);
  }
  values.nan = are_finite(values.losses) ? 0 : 1;
  if (engine.settings().loss_is_scaled) {
    values.loss_scale = progress.loss_scale;
  }
  if (shows(values.iteration) && flags.params_norm) {
    values.params_norm = engine.parameter_norm();
  }
  if (shows(values.iteration) && flags.optimizer_states_to_tensorboard) {
    values.optimizer = optimizer_norms(engine);
  }
  return values;
}

void RunReporter::report() {
  const Engine& engine = parts_.engine;
  const std::int64_t iteration = parts_.iteration();
  monitor::IterationValues now =
      values(iteration - std::exchange(reported_, iteration));
  if (log_) {
    if (!memory_said_ || parts_.config.flags.logging.memory_to_tensorboard) {
      now.memory = engine::allocated(engine.device());
    }
    log_->iteration(now);
    if (!std::exchange(memory_said_, true)) {
      log_->say(monitor::memory_line(0, iteration, *now.memory));
      say_memory();
    }
  }
  if (iteration % parts_.config.flags.logging.log_interval == 0) {
    say_times();
  }
  // The loss scaler deals with what overflows in fp16.
  if (now.nan != 0 && parts_.config.flags.training.check_for_nan &&
      !engine.settings().loss_is_scaled) {
    throw DataError(
        {.what = "the loss is not finite",
         .where = fmt::format("iteration {}", iteration),
         .remedy = "lower --lr, look at the data, or go on regardless with "
                   "--no-check-for-nan-in-loss-and-grad"});
  }
}

void RunReporter::say_times() {
  const std::int64_t iteration = parts_.iteration();
  const std::string times =
      times_.report(iteration - std::exchange(times_reported_, iteration));
  if (log_ && !times.empty()) {
    log_->say(times);
  }
}

void RunReporter::evaluated(Evaluation evaluation) {
  const auto losses = mean(evaluation.losses);
  if (log_) {
    log_->validation(
        {.data = evaluation.split == data::Split::test
             ? monitor::Evaluated::test
             : monitor::Evaluated::validation,
         .at = evaluation.at,
         .iteration = parts_.iteration(),
         .consumed_samples = parts_.engine.progress().global_samples,
         .consumed_tokens = parts_.tokens(),
         .losses = losses});
  }
}

void RunReporter::say_memory() {
  if (!log_) {
    return;
  }
  const MemoryReport held = parts_.engine.memory_report();
  monitor::RunMemory memory{.step = parts_.iteration(), .device = held.device};
  for (const auto& [name, bytes] :
       {std::pair("parameters", held.parameters),
        {"gathered", held.gathered},
        {"gradients", held.gradients},
        {"optimizer", held.optimizer},
        {"buffers", held.buffers},
        {"activations", held.activations},
        {"parameters in CPU memory", held.parameters_on_cpu},
        {"gradients in CPU memory", held.gradients_on_cpu},
        {"optimizer in CPU memory", held.optimizer_on_cpu},
        {"parameters on disk", held.parameters_on_disk},
        {"optimizer on disk", held.optimizer_on_disk},
        {"allocated", held.allocated},
        {"most allocated", held.most_allocated}}) {
    if (bytes > 0) {
      memory.bytes.push_back({name, static_cast<double>(bytes)});
    }
  }
  log_->event(memory);
}

void RunReporter::finish(Ended ended) {
  if (log_) {
    log_->event(
        monitor::RunEnd{parts_.iteration(), std::string(words_for(ended))});
    log_->finish();
  }
}

} // namespace cairn::pretrain
