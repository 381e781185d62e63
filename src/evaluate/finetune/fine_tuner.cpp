#include "evaluate/finetune/fine_tuner.h"

#include "evaluate/finetune/task_scores.h"
#include "zero/internal/sum_over.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <cairn/base/error.h>
#include <cairn/engine/batch_passes.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>
#include <variant>

namespace cairn::evaluate {
namespace {

using distributed::Axis;

/// Names in a checkpoint of what must not change when training goes on.
constexpr const char* saved_task = "task";
constexpr const char* saved_samples = "train_samples";
constexpr const char* saved_batch = "train_batch_size";

/// Throws ConfigError unless the checkpoint's value is `now`.
template <typename Value>
void require_same(
    const ClientState& state,
    const std::string& name,
    const Value& now) {
  const auto found = state.find(name);
  const Value* then =
      found == state.end() ? nullptr : std::get_if<Value>(&found->second);
  if (then != nullptr && *then != now) {
    throw ConfigError(
        {.what = "the checkpoint was trained with another " + name,
         .where = "--load",
         .values = fmt::format("{} there, {} here", *then, now),
         .remedy = "go on with the same task, data and batch, or begin anew "
                   "from its weights with --finetune"});
  }
}

LoadOptions load_options(const config::CheckpointFlags& flags) {
  if (flags.finetune) {
    return LoadOptions::weights_only();
  }
  return {
      .optimizer = !flags.no_load_optim,
      .schedule = !flags.no_load_lr_state,
      .rng = !flags.no_load_rng};
}

} // namespace

FineTuner::FineTuner(FineTunerParts parts) : parts_(std::move(parts)) {
  if (parts_.training) {
    epoch_ = plan_of(
        parts_.training->size(),
        parts_.engine.settings().gradient_accumulation_steps);
    epoch_->keep_last = parts_.keep_last_batch;
  }
  for (const TaskData::File& file : parts_.validation.files()) {
    for (std::int64_t i = file.begin; file.labelled && i < file.end; ++i) {
      labelled_.push_back(i);
    }
  }
}

EpochPlan FineTuner::plan_of(std::int64_t samples, std::int64_t accumulation)
    const {
  const distributed::ProcessGroup& data = parts_.mesh.along(Axis::data);
  return {
      .samples = samples,
      .micro_batch = parts_.engine.settings().train_micro_batch_size_per_gpu,
      .accumulation = accumulation,
      .ranks = data.size(),
      .rank = data.rank()};
}

bool FineTuner::is_due(const std::optional<std::int64_t>& interval) const {
  return interval && *interval > 0 && iteration() % *interval == 0;
}

FinetuneReport FineTuner::run() {
  report_.task = parts_.plan.task.name;
  restore();
  const std::int64_t first = iteration();
  log_.emplace(TrainingReport::Options{
      .config = parts_.config,
      .iterations = iterations(),
      .first_iteration = first,
      .sequence_length = parts_.plan.sequence_length,
      .world = parts_.world,
      .data = parts_.mesh.along(Axis::data),
      .versions = parts_.versions,
      .logger = parts_.logger});
  if (!epoch_) {
    evaluate(-1);
  } else if (first >= iterations()) {
    log_->say("the checkpoint is of the end of the fine-tuning");
    evaluate(parts_.plan.epochs - 1);
  } else {
    for (std::int64_t epoch = first / updates(); epoch < parts_.plan.epochs;
         ++epoch) {
      if (!train_epoch(epoch)) {
        break;
      }
    }
  }
  parts_.engine.finish_checkpoint();
  report_.iterations = iteration();
  report_.losses = log_->losses();
  log_->finish(parts_.engine);
  return std::move(report_);
}

void FineTuner::restore() {
  if (!parts_.plan.start.goes_on) {
    return;
  }
  const config::CheckpointFlags& flags = parts_.config.flags.checkpointing;
  std::optional<std::string> tag;
  if (flags.ckpt_step) {
    tag = fmt::format("global_step{}", *flags.ckpt_step);
  }
  const bool trains = epoch_.has_value();
  const auto [place, state] = parts_.engine.load_checkpoint(
      *flags.load,
      tag,
      trains ? load_options(flags) : LoadOptions::weights_only());
  if (!place) {
    throw CheckpointError(
        {.what = "the checkpoint is gone", .where = *flags.load});
  }
  require_same(state, saved_task, std::string(parts_.plan.task.name));
  if (trains && !flags.finetune) {
    require_same(state, saved_samples, epoch_->samples);
    require_same(state, saved_batch, epoch_->batch());
  }
  saved_at_ = iteration();
  parts_.logger.info(
      "loaded {}: {}",
      place->string(),
      trains ? fmt::format("going on after iteration {}", iteration())
             : "its weights are evaluated");
}

bool FineTuner::train_epoch(std::int64_t epoch) {
  const config::Flags& flags = parts_.config.flags;
  log_->say(fmt::format("working on epoch {} ...", epoch + 1));
  const std::vector<std::int64_t> order = shuffled(
      epoch_->samples,
      static_cast<std::uint64_t>(flags.training.seed + epoch));
  for (std::int64_t update = iteration() % updates(); update < updates();
       ++update) {
    step(epoch, update, order);
    if (is_due(flags.checkpointing.save_interval)) {
      save();
    }
    if (parts_.config.given.contains("--eval-interval") &&
        is_due(flags.validation.eval_interval)) {
      validate();
    }
    if (is_due(flags.training.exit_interval)) {
      save();
      log_->say(fmt::format("exiting program at iteration {}", iteration()));
      return false;
    }
  }
  save();
  evaluate(epoch);
  return true;
}

void FineTuner::step(
    std::int64_t epoch,
    std::int64_t update,
    const std::vector<std::int64_t>& order) {
  // A batch that is not full counts as a mean over the samples it has.
  const double weight = static_cast<double>(epoch_->batch()) /
      static_cast<double>(epoch_->samples_of(update));
  std::int64_t number = 0;
  const at::Tensor loss = parts_.engine.train_batch(BatchPasses([&] {
    const auto places = epoch_->places(update, number++);
    return std::optional(micro_batch(
        *parts_.training,
        order,
        weight,
        epoch * epoch_->samples,
        places));
  }));
  log_->after_step(parts_.engine, loss);
}

pipeline::MicroBatch FineTuner::micro_batch(
    const TaskData& data,
    const std::vector<std::int64_t>& samples,
    double weight,
    std::int64_t first_number,
    const std::vector<std::int64_t>& places) const {
  const std::int64_t choices = parts_.plan.task.choices;
  const auto count = static_cast<std::int64_t>(places.size());
  const at::Tensor numbers = at::empty({count * choices}, at::kLong);
  auto* number = numbers.mutable_data_ptr<std::int64_t>();
  std::vector<std::int64_t> chosen;
  for (const std::int64_t place : places) {
    const bool is_there = place < static_cast<std::int64_t>(samples.size());
    chosen.push_back(
        is_there ? samples[static_cast<std::size_t>(place)] : no_sample);
    for (std::int64_t choice = 0; choice < choices; ++choice) {
      *number++ = (first_number + place) * choices + choice;
    }
  }
  TaskBatch batch = data.batch(chosen, weight);
  batch.input.samples = numbers;
  return task_micro_batch(
      parts_.plan.start.description,
      batch.input,
      batch.labels,
      batch.weights);
}

void FineTuner::save() {
  const config::CheckpointFlags& flags = parts_.config.flags.checkpointing;
  if (!flags.save || saved_at_ == iteration()) {
    return;
  }
  const auto pause = log_->pause();
  parts_.engine.save_checkpoint(
      *flags.save,
      std::nullopt,
      {{saved_task, std::string(parts_.plan.task.name)},
       {saved_samples, epoch_->samples},
       {saved_batch, epoch_->batch()}},
      {.optimizer = !flags.no_save_optim, .rng = !flags.no_save_rng});
  saved_at_ = iteration();
}

void FineTuner::validate() {
  const std::int64_t batches = parts_.config.flags.validation.eval_iters;
  if (labelled_.empty() || batches == 0) {
    return;
  }
  const auto pause = log_->pause();
  const EpochPlan plan = plan_of(
      static_cast<std::int64_t>(labelled_.size()),
      epoch_->accumulation);
  std::vector<std::int64_t> samples(static_cast<std::size_t>(plan.batch()));
  at::Tensor sum;
  for (std::int64_t i = 0; i < batches; ++i) {
    for (std::int64_t& sample : samples) { // begins anew at the end
      sample = labelled_[validated_++ % labelled_.size()];
    }
    std::int64_t number = 0;
    const at::Tensor loss = parts_.engine.eval_batch(
        BatchPasses([&] {
          const auto places = plan.places(0, number++);
          return std::optional(
              micro_batch(parts_.validation, samples, 1, 0, places));
        }),
        plan.accumulation);
    sum = sum.defined() ? sum + loss : loss;
  }
  log_->validated(parts_.engine, sum / batches);
}

void FineTuner::evaluate(std::int64_t epoch) {
  const auto pause = log_->pause();
  log_->say("calculating metrics ...");
  EpochResult result{.epoch = epoch};
  for (const TaskData::File& file : parts_.validation.files()) {
    result.files.push_back(evaluate_file(file, epoch));
  }
  const auto is_counted = [](const FileResult& file) {
    return file.scores.correct.has_value();
  };
  if (std::ranges::any_of(result.files, is_counted)) {
    log_->say(overall_line(result));
  }
  report_.epochs.push_back(std::move(result));
}

FileResult FineTuner::evaluate_file(
    const TaskData::File& file,
    std::int64_t epoch) {
  const auto began = std::chrono::steady_clock::now();
  const FinetuneTask& task = parts_.plan.task;
  const TaskData& data = parts_.validation;
  FileResult result{
      .name = name_of_data(task, file.path),
      .path = file.path,
      .samples = file.end - file.begin,
      .labelled = file.labelled};
  const at::Tensor outputs = outputs_of(file);
  std::vector<double> labels;
  std::vector<std::int64_t> ids;
  for (std::int64_t i = file.begin; i < file.end; ++i) {
    labels.push_back(data.label(i));
    ids.push_back(data.id(i));
  }
  if (file.labelled) {
    result.scores = scores_of(task, outputs, labels);
  }
  if (!epoch_) {
    result.predictions = predictions_of(task, outputs, ids);
  }
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - began;
  log_->say(file_line(task, epoch, result, seconds.count()));
  return result;
}

at::Tensor FineTuner::outputs_of(const TaskData::File& file) {
  std::vector<std::int64_t> samples(
      static_cast<std::size_t>(file.end - file.begin));
  std::iota(samples.begin(), samples.end(), file.begin);
  const auto count = static_cast<std::int64_t>(samples.size());
  EpochPlan plan = plan_of(count, 1);
  plan.keep_last = true;
  // Enough micro batches at a time to keep all stages of a pipeline busy.
  const std::int64_t at_a_time = 2 * parts_.mesh.degree(Axis::pipeline);
  parts_.kept->begin();
  for (std::int64_t next = 0; next < plan.updates(); next += at_a_time) {
    std::int64_t update = next;
    parts_.engine.eval_batch(
        BatchPasses([&] {
          const auto places = plan.places(update++, 0);
          return std::optional(
              micro_batch(parts_.validation, samples, 1, 0, places));
        }),
        std::min(at_a_time, plan.updates() - next));
  }
  const std::vector<at::Tensor> own = parts_.kept->take();
  at::Tensor all = at::zeros({count, parts_.plan.task.scores()}, at::kFloat);
  // Each sample was computed by one rank of the data axis; of the ranks that
  // share the model, one says so.
  if (parts_.mesh.is_last_stage() &&
      parts_.mesh.coordinate(Axis::tensor) == 0) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      const at::Tensor scores = own[i].cpu();
      const auto places = plan.places(static_cast<std::int64_t>(i), 0);
      for (std::size_t row = 0; row < places.size(); ++row) {
        if (places[row] < count) {
          all.select(0, places[row])
              .copy_(scores.select(0, static_cast<std::int64_t>(row)));
        }
      }
    }
  }
  return zero::sum_over(parts_.world.group(), all).cpu();
}

} // namespace cairn::evaluate
