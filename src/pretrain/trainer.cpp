#include "pretrain/trainer.h"

#include "engine/device_memory.h"
#include "pretrain/stages.h"
#include "pretrain/state_norms.h"
#include "zero/sum_over.h"

#include <ATen/ops/full.h>
#include <cairn/base/error.h>
#include <cairn/config/reference.h>
#include <cairn/monitor/device_peak.h>
#include <cairn/monitor/flops.h>
#include <cairn/monitor/profiled_steps.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace cairn::pretrain {

using data::Split;

Trainer::Trainer(Parts parts)
    : parts_(std::move(parts)),
      stop_(parts_.config.flags.training, parts_.world.group()),
      pipelined_(is_pipelined(parts_.config.flags.distributed)),
      times_(parts_.config.flags.logging, parts_.world.group(), parts_.timers) {
}

Outcome Trainer::run() {
  restore();
  open_log();
  const config::ValidationFlags& validation = parts_.config.flags.validation;
  Outcome outcome{.iteration = iteration()};
  if (validation.skip_train) {
    evaluate(Split::valid, fmt::format("iteration {}", iteration()));
  } else if (iteration() >= parts_.plan.iterations) {
    outcome.ended = Ended::nothing_to_do;
  } else {
    outcome.ended = train().value_or(Ended::done);
    save();
    if (log_) {
      log_memory(); // again: now the most is known
    }
  }
  if (outcome.ended == Ended::done) {
    evaluate(Split::test, "the end of training for test data");
  }
  parts_.engine.finish_checkpoint();
  if (log_) {
    log_->event(
        monitor::RunEnd{iteration(), std::string(words_for(outcome.ended))});
    log_->finish();
  }
  outcome.iteration = iteration();
  return outcome;
}

void Trainer::restore() {
  const config::CheckpointFlags& flags = parts_.config.flags.checkpointing;
  const auto& from = flags.load;
  if (!from) {
    return;
  }
  if (parts_.weights) {
    if (parts_.world.rank() == 0) {
      parts_.logger.info(
          "loaded the weights of {} (format {}): fine-tuning from iteration 0, "
          "with a new optimizer",
          *from,
          checkpoints::name_of(*parts_.weights));
    }
    return;
  }
  LoadOptions options{
      .optimizer = !flags.no_load_optim,
      .schedule = !flags.no_load_lr_state,
      .rng = !flags.no_load_rng};
  if (flags.finetune) {
    options = LoadOptions::weights_only();
  }
  std::optional<std::string> tag;
  if (flags.ckpt_step) {
    tag = fmt::format("global_step{}", *flags.ckpt_step);
  }
  const auto [place, state] =
      parts_.engine.load_checkpoint(*from, tag, options);
  if (!place && flags.exit_on_missing_checkpoint) {
    throw CheckpointError(
        {.what = "there is no checkpoint to go on from",
         .where = *from,
         .remedy = "leave out --exit-on-missing-checkpoint to start from "
                   "scratch"});
  }
  const auto consumed = state.find("consumed_validation_samples");
  if (consumed != state.end() && !flags.finetune) {
    consumed_validation_ = std::get<std::int64_t>(consumed->second);
  }
  if (place) {
    saved_at_ = iteration();
    if (parts_.world.rank() == 0) {
      parts_.logger.info(
          "loaded {}: {} iteration {}, {} samples consumed",
          place->string(),
          flags.finetune ? "fine-tuning from" : "going on after",
          iteration(),
          parts_.engine.global_samples());
    }
  }
}

void Trainer::open_log() {
  const config::LoggingFlags& flags = parts_.config.flags.logging;
  const bool speaks = parts_.world.rank() == 0;
  bool live = false;
  if (speaks) {
    monitor::Monitor monitor(
        {.flags = flags,
         .tensorboard = parts_.config.deepspeed.tensorboard,
         .csv = parts_.config.deepspeed.csv_monitor,
         .arguments =
             {{"flags", config::flags_table(parts_.config, acts_on)},
              {"configuration",
               fmt::format("```\n{}\n```", parts_.config.json())}},
         .iteration = iteration(),
         .start =
             monitor::RunStart{
                 .step = iteration(),
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
            .first_iteration = iteration(),
            .log_interval = flags.log_interval,
            .times_line = !flags.timing_log_option,
            .peak_flops = peak_flops()},
        std::move(monitor));
    live = log_->live();
  }
  // The ranks reduce their losses together, so they agree on when.
  live = zero::sum_over(
             parts_.world.group(),
             at::full({1}, live ? 1 : 0, at::kLong))
             .item<std::int64_t>() != 0;
  const config::DeepSpeedConfig& deepspeed = parts_.config.deepspeed;
  const bool writes = flags.tensorboard_dir || flags.jsonl ||
      deepspeed.tensorboard.enabled || deepspeed.csv_monitor.enabled;
  write_every_ = writes ? flags.tensorboard_log_interval : flags.log_interval;
  report_every_ = std::gcd(flags.log_interval, write_every_);
  if (live && !parts_.engine.device().is_cuda()) {
    report_every_ = 1; // no device to wait for
  }
  reported_ = iteration();
  times_reported_ = iteration();
  skipped_before_ = parts_.engine.skipped_steps();

  const auto steps = monitor::profiled_steps(flags, parts_.world.rank());
  if (!steps.empty()) {
    traces_.emplace(monitor::ProfilerTraces::Options{
        .steps = steps,
        .folder = monitor::profiling_folder(flags),
        .rank = parts_.world.rank(),
        .devices = parts_.engine.device().is_cuda()
            ? monitor::ProfilerTraces::Devices::cpu_and_gpu
            : monitor::ProfilerTraces::Devices::cpu});
  }
}

BatchStream Trainer::stream(Split split, std::int64_t consumed) const {
  const auto& data = parts_.data[split];
  const config::Flags& flags = parts_.config.flags;
  const distributed::ProcessGroup& sharing = parts_.mesh.data_context();
  return BatchStream(
      *data,
      {.micro_batch = parts_.engine.train_micro_batch_size_per_gpu(),
       .parallel = {.rank = sharing.rank(), .size = sharing.size()},
       .consumed_samples = consumed,
       .order = flags.data.loader,
       .seed = static_cast<std::uint64_t>(flags.training.seed),
       .workers = static_cast<std::size_t>(flags.data.num_workers),
       .device = parts_.engine.device()});
}

models::ModelInput Trainer::input_of(const data::TensorBatch& batch) const {
  return models::pretraining_input(parts_.model, batch, parts_.pretraining);
}

models::ModelInput Trainer::next_training_input() {
  monitor::Timers& timers = *parts_.timers;
  const monitor::TimerScope generating(timers("batch generator"));
  BatchStream& batches = training_batches();
  const data::TensorBatch batch = [&] {
    const monitor::TimerScope loading(timers("data loader"));
    return batches.next();
  }();
  return input_of(batch);
}

/// Stages that need no batch open no data.
pipeline::NextMicroBatch Trainer::micro_batches_of(
    const std::function<models::ModelInput()>& next) const {
  return [this, next] {
    return std::optional(
        micro_batch_of(parts_.model, parts_.config.flags.data, next()));
  };
}

/// At the start of a step where the engine stands, which a roll-back may have
/// moved.
BatchStream& Trainer::training_batches() {
  const std::int64_t consumed = parts_.engine.global_samples();
  if (!training_ ||
      (training_->consumed_samples() != consumed && step_begins_)) {
    training_.emplace(stream(Split::train, consumed));
  }
  step_begins_ = false;
  return *training_;
}

BatchStream& Trainer::evaluation_batches(Split split) {
  if (split == Split::test) {
    if (!test_) {
      test_.emplace(stream(split, 0));
    }
    return *test_;
  }
  if (!validation_) {
    validation_.emplace(stream(split, consumed_validation_));
  }
  return *validation_;
}

bool Trainer::is_due(const std::optional<std::int64_t>& interval) const {
  return interval && *interval > 0 && iteration() % *interval == 0;
}

/// Whether somebody gets to see more of that iteration than the loss.
bool Trainer::shows(std::int64_t iteration) const {
  return iteration % parts_.config.flags.logging.log_interval == 0 ||
      iteration % write_every_ == 0;
}

std::optional<Ended> Trainer::train() {
  const config::Flags& flags = parts_.config.flags;
  while (iteration() < parts_.plan.iterations) {
    step();
    if (iteration() % report_every_ == 0 ||
        iteration() == parts_.plan.iterations) {
      report();
    }
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
      parts_.plan.batch_size.at(engine.global_samples()).running);
  step_begins_ = true;
  const std::int64_t number = iteration() + 1;
  engine.count_zeros_in_gradient(
      parts_.config.flags.logging.num_zeros_in_grad && shows(number));
  if (traces_) {
    traces_->begin(number);
  }
  if (pipelined_) {
    engine.train_batch(
        micro_batches_of([this] { return next_training_input(); }));
    losses_.add(engine.loss_parts());
  } else {
    const std::int64_t passes = engine.gradient_accumulation_steps();
    for (std::int64_t i = 0; i < passes; ++i) {
      const auto output =
          engine.forward<models::ModelOutput>(next_training_input());
      losses_.add(output.losses);
      engine.backward(output.loss);
      engine.step();
    }
  }
  if (traces_) {
    if (const auto file = traces_->end(number)) {
      parts_.logger.info("profile of steps in {}", file->string());
    }
  }
}

std::int64_t Trainer::tokens() const {
  return parts_.engine.global_samples() * parts_.plan.sequence_length;
}

/// What a rank's device can do at most; none where nobody knows.
std::optional<double> Trainer::peak_flops() const {
  const Engine& engine = parts_.engine;
  std::optional<monitor::DevicePeak> peak;
  if (const auto& stated = parts_.config.flags.logging.peak_tflops) {
    peak = monitor::stated_peak(*stated);
  } else {
    const bool half = engine.fp16_enabled() || engine.bfloat16_enabled() ||
        parts_.config.deepspeed.amp.enabled;
    peak = monitor::known_peak(
        engine::hardware_name(engine.device()),
        half ? monitor::Arithmetic::half : monitor::Arithmetic::full);
  }
  if (!peak) {
    return std::nullopt;
  }
  parts_.logger.info("MFU is the share of {}", peak->source);
  return peak->flops;
}

double Trainer::flops_per_sample() const {
  const checkpoints::ModelDescription& model = parts_.model;
  const config::DataFlags& data = parts_.config.flags.data;
  const bool two_stacks = parts_.kind == Kind::t5;
  const monitor::TransformerShape shape{
      .layers = two_stacks ? model.decoder_layers : model.layers,
      .encoder_layers = two_stacks ? model.layers : 0,
      .hidden = model.hidden,
      .feed_forward = model.ffn,
      .heads = model.heads,
      .kv_heads = model.key_value_heads,
      .head_size = model.head_size,
      .vocabulary = model.padded_vocabulary,
      .gated = model.gated,
      .causal = parts_.kind != Kind::bert};
  return two_stacks
      ? monitor::megatron_flops(
            shape,
            data.decoder_seq_length.value_or(128),
            parts_.plan.sequence_length)
      : monitor::megatron_flops(shape, parts_.plan.sequence_length);
}

std::vector<monitor::NamedValue> Trainer::mean_losses(LossMeter& meter) const {
  return meter.mean(parts_.mesh.data_context());
}

void Trainer::report() {
  Engine& engine = parts_.engine;
  const config::LoggingFlags& flags = parts_.config.flags.logging;
  const auto losses = mean_losses(losses_);
  const bool finite = std::ranges::all_of(losses, [](const auto& loss) {
    return std::isfinite(loss.value);
  });
  const std::int64_t skipped = engine.skipped_steps();
  const std::int64_t iterations = iteration() - reported_;
  monitor::IterationValues values{
      .iteration = iteration(),
      .iterations = iterations,
      .consumed_samples = engine.global_samples(),
      .consumed_tokens = tokens(),
      .batch_size = engine.train_batch_size(),
      .sequence_length = parts_.plan.sequence_length,
      .learning_rate = engine.get_lr().front(),
      .losses = losses,
      .grad_norm = engine.get_global_grad_norm(),
      .zeros_in_grad = engine.zeros_in_gradient(),
      .skipped = skipped - skipped_before_,
      .nan = finite ? 0 : 1,
      .flops =
          flops_per_sample() * static_cast<double>(engine.train_batch_size()),
      .timers = times_.take(std::max<std::int64_t>(1, iterations))};
  if (engine.fp16_enabled()) {
    values.loss_scale = engine.cur_scale();
  }
  if (shows(iteration()) && flags.params_norm) {
    values.params_norm = engine.parameter_norm();
  }
  if (shows(iteration()) && flags.optimizer_states_to_tensorboard) {
    values.optimizer = optimizer_norms(engine);
  }
  if (log_) {
    if (!memory_said_ || flags.memory_to_tensorboard) {
      values.memory = engine::allocated(engine.device());
    }
    log_->iteration(values);
    if (!std::exchange(memory_said_, true)) {
      log_->say(monitor::memory_line(0, iteration(), *values.memory));
      log_memory();
    }
  }
  if (is_due(flags.log_interval)) {
    const std::string times = times_.report(
        iteration() - std::exchange(times_reported_, iteration()));
    if (log_ && !times.empty()) {
      log_->say(times);
    }
  }
  reported_ = iteration();
  skipped_before_ = skipped;
  // With fp16 the loss scaler deals with what overflows.
  if (!finite && parts_.config.flags.training.check_for_nan &&
      !engine.fp16_enabled()) {
    throw DataError(
        {.what = "the loss is not finite",
         .where = fmt::format("iteration {}", iteration()),
         .remedy = "lower --lr, look at the data, or go on regardless with "
                   "--no-check-for-nan-in-loss-and-grad"});
  }
}

void Trainer::log_memory() {
  const MemoryReport held = parts_.engine.memory_report();
  monitor::RunMemory memory{.step = iteration(), .device = held.device};
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

void Trainer::evaluate(Split split, const std::string& at) {
  const auto& data = parts_.data[split];
  if (!data || data->samples == 0 || parts_.plan.eval_iterations == 0) {
    return;
  }
  std::optional<monitor::TrainingLog::Pause> pause;
  if (log_) {
    pause.emplace(*log_);
  }
  Engine& engine = parts_.engine;
  const std::int64_t passes = parts_.plan.eval_batch /
      (engine.train_micro_batch_size_per_gpu() *
       parts_.mesh.data_context().size());
  const auto next = [&] { return input_of(evaluation_batches(split).next()); };
  LossMeter meter;
  engine.eval();
  {
    const torch::autograd::AutoGradMode no_grad(false);
    for (std::int64_t i = 0; i < parts_.plan.eval_iterations; ++i) {
      if (pipelined_) {
        engine.eval_batch(micro_batches_of(next), passes);
        meter.add(engine.loss_parts());
        continue;
      }
      for (std::int64_t pass = 0; pass < passes; ++pass) {
        meter.add(engine.forward<models::ModelOutput>(next()).losses);
      }
    }
  }
  engine.train();
  if (split == Split::valid) {
    consumed_validation_ +=
        parts_.plan.eval_iterations * parts_.plan.eval_batch;
  }
  const auto losses = mean_losses(meter);
  if (log_) {
    log_->validation(
        {.data = split == Split::test ? monitor::Evaluated::test
                                      : monitor::Evaluated::validation,
         .at = at,
         .iteration = iteration(),
         .consumed_samples = engine.global_samples(),
         .consumed_tokens = tokens(),
         .losses = losses});
  }
}

void Trainer::save() {
  const config::CheckpointFlags& flags = parts_.config.flags.checkpointing;
  if (!flags.save || saved_at_ == iteration()) {
    return;
  }
  std::optional<monitor::TrainingLog::Pause> pause;
  if (log_) {
    pause.emplace(*log_);
  }
  parts_.engine.save_checkpoint(
      *flags.save,
      std::nullopt,
      {{"consumed_validation_samples", consumed_validation_}},
      {.optimizer = !flags.no_save_optim, .rng = !flags.no_save_rng});
  saved_at_ = iteration();
}

} // namespace cairn::pretrain
