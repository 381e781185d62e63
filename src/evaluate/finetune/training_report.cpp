#include "evaluate/finetune/training_report.h"

#include "config/internal/reference.h"
#include "zero/internal/sum_over.h"

#include <ATen/ops/stack.h>
#include <cairn/base/error.h>
#include <cairn/monitor/monitor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace cairn::evaluate {
namespace {

/// Steps between looks at the loss: at every step that a line or a file shows.
std::int64_t interval_of(const config::Config& config) {
  const config::LoggingFlags& flags = config.flags.logging;
  const config::DeepSpeedConfig& deepspeed = config.deepspeed;
  const bool writes = flags.tensorboard_dir || flags.jsonl ||
      deepspeed.tensorboard.enabled || deepspeed.csv_monitor.enabled;
  return writes ? std::gcd(flags.log_interval, flags.tensorboard_log_interval)
                : flags.log_interval;
}

monitor::TrainingLog open_log(const TrainingReport::Options& options) {
  const config::Config& config = options.config;
  const config::LoggingFlags& flags = config.flags.logging;
  monitor::Monitor monitor(
      {.flags = flags,
       .tensorboard = config.deepspeed.tensorboard,
       .csv = config.deepspeed.csv_monitor,
       .arguments =
           {{"flags", config::flags_table(config, config::Actor::finetune)},
            {"configuration", fmt::format("```\n{}\n```", config.json())}},
       .iteration = options.first_iteration,
       .start =
           monitor::RunStart{
               .step = options.first_iteration,
               .iterations = options.iterations,
               .ranks = options.world.size(),
               .model = "bert",
               .versions = options.versions,
               .given = config::given_values(config),
               .configuration = config.json()}},
      options.logger);
  return monitor::TrainingLog(
      {.run = {.iterations = options.iterations, .ranks = options.world.size()},
       .first_iteration = options.first_iteration,
       .log_interval = flags.log_interval,
       .times_line = false,
       .display = monitor::TrainingLog::Display::lines},
      std::move(monitor));
}

} // namespace

TrainingReport::TrainingReport(const Options& options)
    : config_(options.config),
      iterations_(options.iterations),
      sequence_length_(options.sequence_length),
      interval_(interval_of(options.config)),
      data_(options.data) {
  if (options.world.rank() == 0) {
    log_.emplace(open_log(options));
  }
}

void TrainingReport::read_losses() {
  if (waiting_.empty()) {
    return;
  }
  const at::Tensor mean =
      zero::sum_over(data_, at::stack(std::exchange(waiting_, {})))
          .to(at::kCPU, at::kDouble)
          .div(data_.size())
          .contiguous();
  const auto* begin = mean.const_data_ptr<double>();
  losses_.insert(losses_.end(), begin, begin + mean.numel());
}

std::vector<double> TrainingReport::losses() {
  read_losses();
  return losses_;
}

void TrainingReport::after_step(const Engine& engine, const at::Tensor& loss) {
  waiting_.push_back(loss.detach().to(at::kFloat).reshape({}));
  const std::int64_t iteration = engine.progress().global_steps;
  if (iteration % interval_ == 0 || iteration == iterations_) {
    show(engine);
  }
}

void TrainingReport::show(const Engine& engine) {
  read_losses();
  const auto first = losses_.begin() +
      static_cast<std::ptrdiff_t>(std::exchange(shown_, losses_.size()));
  const auto count = losses_.end() - first;
  const double mean =
      std::accumulate(first, losses_.end(), 0.0) / static_cast<double>(count);
  const EngineProgress progress = engine.progress();
  const EngineSettings settings = engine.settings();
  const auto gradient_norm = engine.gradient_norm(); // all ranks ask
  monitor::IterationValues values{
      .iteration = progress.global_steps,
      .iterations = count,
      .consumed_samples = progress.global_samples,
      .consumed_tokens = progress.global_samples * sequence_length_,
      .batch_size = settings.train_batch_size,
      .sequence_length = sequence_length_,
      .learning_rate = progress.learning_rates.front(),
      .losses = {{"lm loss", mean}},
      .grad_norm = gradient_norm,
      .skipped = progress.skipped_steps -
          std::exchange(skipped_, progress.skipped_steps),
      .nan = std::isfinite(mean) ? 0 : 1};
  if (settings.loss_is_scaled) {
    values.loss_scale = progress.loss_scale;
  }
  if (log_) {
    log_->iteration(values);
  }
  if (values.nan != 0 && config_.flags.training.check_for_nan &&
      !settings.loss_is_scaled) {
    throw DataError(
        {.what = "the loss is not finite",
         .where = fmt::format("iteration {}", values.iteration),
         .remedy = "lower --lr, look at the data, or go on regardless with "
                   "--no-check-for-nan-in-loss-and-grad"});
  }
}

void TrainingReport::validated(const Engine& engine, const at::Tensor& loss) {
  const double mean =
      zero::sum_over(data_, loss.to(at::kFloat).reshape({1})).item<double>() /
      data_.size();
  const EngineProgress progress = engine.progress();
  if (log_) {
    log_->validation(
        {.at = fmt::format("iteration {}", progress.global_steps),
         .iteration = progress.global_steps,
         .consumed_samples = progress.global_samples,
         .consumed_tokens = progress.global_samples * sequence_length_,
         .losses = {{"lm loss", mean}}});
  }
}

void TrainingReport::say(const std::string& line) {
  if (log_) {
    log_->say(line);
  }
}

std::unique_ptr<monitor::TrainingLog::Pause> TrainingReport::pause() {
  return log_ ? std::make_unique<monitor::TrainingLog::Pause>(*log_) : nullptr;
}

void TrainingReport::finish(const Engine& engine) {
  if (log_) {
    log_->event(monitor::RunEnd{
        engine.progress().global_steps,
        "the fine-tuning is done"});
    log_->finish();
  }
}

} // namespace cairn::evaluate
