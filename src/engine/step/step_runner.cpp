#include "engine/step/step_runner.h"

#include "engine/build/make_pipeline.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <utility>

namespace cairn::inline engine {

StepRunner::StepRunner(const Parts& parts)
    : job_(parts.job),
      trained_(parts.trained),
      progress_(parts.progress),
      updater_(parts.updater),
      offered_(parts.offered),
      log_(parts.log),
      monitor_(parts.monitor),
      memory_(parts.memory),
      activations_(job_.device),
      profile_(job_, trained_.parameters, log_.timers()),
      metric_(job_),
      // Weights that come and go are not kept in another form.
      fp8_(
          trained_.model.module(),
          trained_.gatherer ? nn::Fp8Histories::Weights::rounded_again
                            : nn::Fp8Histories::Weights::kept) {
  trained_.pipeline = make_pipeline(job_, trained_.model.module(), hooks());
}

void StepRunner::begin_forward() {
  refuse_in_pipeline("forward");
  enter_forward();
}

void StepRunner::enter_forward() {
  if (trained_.gatherer) {
    trained_.gatherer->rethrow(); // of operators since the last pass
  }
  in_forward_ = true;
  fp8_.look();
  if (training_ && progress_.since_update == 0) {
    fp8_.begin_update();
  }
  if (training_) {
    log_.begin_pass();
    log_.phase("before forward");
    activations_.begin_forward(trained_.gathered_bytes());
    profile_.begin_forward(progress_.global_steps);
    log_.timers()("forward").start();
  } else if (trained_.gatherer) {
    trained_.gatherer->finish_pass(zero::ParameterGatherer::Mode::evaluation);
  }
  if (job_.precision.autocast) {
    const auto device = job_.device.type();
    at::autocast::set_autocast_dtype(device, job_.precision.autocast_type);
    at::autocast::set_autocast_enabled(device, true);
  }
}

/// However the pass ended.
void StepRunner::leave_forward() {
  if (!std::exchange(in_forward_, false)) {
    return;
  }
  if (training_) {
    log_.timers()("forward").stop();
    profile_.end_forward();
    log_.phase("after forward");
  }
  if (job_.precision.autocast) {
    at::autocast::set_autocast_enabled(job_.device.type(), false);
    at::autocast::clear_cache();
  }
}

void StepRunner::end_forward() {
  leave_forward();
  if (trained_.gatherer) {
    trained_.gatherer->rethrow();
  }
}

void StepRunner::fail_forward() {
  leave_forward();
  try {
    if (trained_.gatherer) {
      trained_.gatherer->rethrow(); // which led to the other
    }
  } catch (...) {
    fail("forward");
  }
  fail("forward");
}

void StepRunner::fail(std::string_view doing) {
  profile_.abandon();
  engine::fail(doing, job_, trained_, activations());
}

ActivationUse StepRunner::activations() const {
  return {
      .most = activations_.most(),
      .checkpointed = offered_.checkpointing_used()};
}

at::Tensor StepRunner::prepared(const at::Tensor& input) const {
  if (!input.defined()) {
    return input;
  }
  return at::isFloatingType(input.scalar_type()) && !job_.precision.autocast
      ? input.to(job_.device, job_.precision.compute)
      : input.to(job_.device);
}

bool StepRunner::at_boundary() const {
  return progress_.since_update + 1 == job_.batch().accumulation;
}

void StepRunner::set_train_batch_size(std::int64_t samples) {
  const config::BatchConfig& batch = job_.batch();
  const std::int64_t share = batch.micro * batch.data_parallel;
  if (samples < 1 || samples % share != 0) {
    throw UsageError(
        {.what = "the batch does not divide into micro batches",
         .where = "set_train_batch_size()",
         .values = fmt::format(
             "{} samples, {} ranks x micro batch {}",
             samples,
             batch.data_parallel,
             batch.micro)});
  }
  if (progress_.since_update != 0 || progress_.backward_done) {
    throw UsageError(
        {.what = "the batch size changes between updates only",
         .where = "set_train_batch_size()",
         .remedy = "call it right after the step() that updates"});
  }
  job_.config.deepspeed.batch->train = samples;
  job_.config.deepspeed.batch->accumulation = samples / share;
}

void StepRunner::set_sync(bool on) {
  if (!on && job_.policy.partition_gradients) {
    throw UsageError(
        {.what = "no_sync() needs whole gradients on every rank",
         .where = "zero_optimization.stage",
         .values = fmt::format(
             "stage {}",
             static_cast<int>(job_.deepspeed().zero.stage)),
         .remedy = "use stage 0 or 1, or gradient_accumulation_steps"});
  }
  synchronise_ = on;
}

void StepRunner::backward(const at::Tensor& loss) {
  refuse_in_pipeline("backward");
  if (progress_.backward_done && synchronise_) {
    throw UsageError(
        {.what = "backward() was called twice without step()",
         .remedy = "call engine.step() after every engine.backward(loss); with "
                   "gradient accumulation it updates only at the end"});
  }
  if (!training_) {
    throw UsageError(
        {.what = "backward() while evaluating",
         .remedy = "call engine.train() first"});
  }
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad()) {
    throw UsageError(
        {.what = "backward() needs a loss of one element with a gradient",
         .values = !loss.defined() ? "undefined"
                                   : fmt::format(
                                         "{} elements, requires_grad {}",
                                         loss.numel(),
                                         loss.requires_grad()),
         .remedy = "reduce it with mean(), and compute it with gradients on"});
  }
  offered_.warn_of_unused();
  monitor_.add_loss(loss);
  differentiate(loss);
}

void StepRunner::differentiate(const at::Tensor& loss) {
  run_backward(
      [&] { torch::autograd::backward({scaled(loss)}, {}); },
      synchronise_ && at_boundary());
  if (trained_.gatherer) {
    trained_.gatherer->finish_pass(zero::ParameterGatherer::Mode::training);
  }
  progress_.backward_done = synchronise_;
}

/// The tensor that backward starts from: the loss times the scale, divided by
/// the number of micro batches.
at::Tensor StepRunner::scaled(const at::Tensor& loss) const {
  const double factor =
      progress_.scaler.scale() / static_cast<double>(job_.batch().accumulation);
  return factor == 1 ? loss : loss.to(at::kFloat) * factor;
}

void StepRunner::run_backward(const std::function<void()>& pass, bool last) {
  zero::GradientReducer& reducer = *trained_.reducer;
  activations_.begin_backward(trained_.gathered_bytes());
  log_.phase("before backward");
  try {
    {
      profile_.begin_backward();
      const monitor::TimerScope timed(log_.timers()("backward"));
      trained_.settle(); // the last update may still read gradients
      reducer.begin(last);
      pass();
      if (trained_.gatherer) {
        trained_.gatherer->rethrow();
      }
      profile_.end_backward();
    }
    {
      const monitor::TimerScope timed(log_.timers()("allreduce"));
      reducer.end();
    }
    log_.phase("after backward");
  } catch (...) {
    reducer.abandon();
    fail("backward");
  }
}

void StepRunner::step() {
  refuse_in_pipeline("step");
  if (!synchronise_) {
    throw UsageError(
        {.what = "step() inside no_sync()", .remedy = "leave the scope first"});
  }
  if (!progress_.backward_done) {
    throw UsageError(
        {.what = "step() without backward()",
         .remedy = "call engine.backward(loss) first"});
  }
  const bool boundary = at_boundary();
  progress_.backward_done = false;
  ++progress_.micro_steps;
  ++progress_.since_update;
  end_micro_step(boundary);
  if (boundary) {
    write_step();
  }
}

void StepRunner::end_micro_step(bool boundary) {
  if (boundary) {
    progress_.since_update = 0;
    progress_.samples += job_.batch().train;
    log_.phase("before step");
    try {
      if (records_) {
        updater_.run_repeated(*recording_);
      } else {
        updater_.run();
      }
      advance_fp8();
    } catch (...) {
      fail("step");
    }
    profile_.end_update();
    log_.phase("after step");
    memory_.end_update(trained_, activations());
    metric_.end_update(job_.batch().train);
  }
  log_.end_step(
      {.global_step = progress_.global_steps,
       .skipped = progress_.skipped_steps,
       .ends_accumulation = boundary,
       .groups = trained_.optimizer->groups()});
}

/// Takes the units of the next update from the largest values of this one. All
/// ranks that have the same layers, or parts of them, take the same.
void StepRunner::advance_fp8() {
  if (!job_.mesh) {
    fp8_.advance({{job_.group}});
    return;
  }
  using distributed::Axis;
  fp8_.advance(
      {{job_.mesh->along(Axis::tensor),
        job_.mesh->along(Axis::context),
        job_.mesh->along(Axis::data)}});
}

bool StepRunner::loss_is_scaled() const {
  return job_.deepspeed().fp16.enabled ||
      progress_.scaler != optim::LossScaler();
}

void StepRunner::write_step() {
  StepMonitor::Step step{
      .global_step = progress_.global_steps,
      .samples = progress_.samples,
      .learning_rate = trained_.learning_rates().front()};
  if (loss_is_scaled()) {
    step.loss_scale = progress_.scaler.scale();
  }
  monitor_.end_step(step);
}

void StepRunner::train(bool on) {
  training_ = on;
  trained_.model.module().train(on);
  if (trained_.gatherer) {
    using Mode = zero::ParameterGatherer::Mode;
    trained_.gatherer->set_mode(on ? Mode::training : Mode::evaluation);
  }
}

// A model that is cut into stages: the executor says when which pass runs, the
// runner what is around it.

pipeline::Hooks StepRunner::hooks() {
  return {
      .forward =
          [this](const pipeline::Hooks::Pass& pass) {
            enter_forward();
            try {
              pass();
              end_forward();
            } catch (...) {
              fail_forward();
            }
          },
      .backward =
          [this](const pipeline::Hooks::Pass& pass, bool last) {
            run_backward(pass, last);
            if (last && trained_.gatherer) { // the order of the whole batch
              trained_.gatherer->finish_pass(
                  zero::ParameterGatherer::Mode::training);
            }
          },
      .scale = [this](const at::Tensor& loss) { return scaled(loss); },
      .prepare = [this](const at::Tensor& x) { return prepared(x); },
      .step =
          [this] {
            progress_.micro_steps += job_.batch().accumulation;
            end_micro_step(true);
          }};
}

void StepRunner::refuse_in_pipeline(std::string_view verb) const {
  if (trained_.pipeline) {
    throw UsageError(
        {.what = fmt::format("{}() of a model that is cut into stages", verb),
         .remedy = "call engine.train_batch(), which runs all of them"});
  }
}

void StepRunner::check_passes(const BatchPasses& passes, std::string_view verb)
    const {
  if (trained_.pipeline && !passes.next()) {
    throw UsageError(
        {.what = fmt::format(
             "{}() of a model that is cut into stages needs micro batches",
             verb),
         .remedy = "pass a function that returns the next "
                   "cairn::pipeline::MicroBatch"});
  }
  if (!trained_.pipeline && !passes.forward()) {
    throw UsageError(
        {.what = fmt::format(
             "{}() of a model in one piece needs its forward pass",
             verb),
         .remedy = "pass a function that calls engine.forward() and returns "
                   "the loss, or a cairn::pipeline::PipelineModule to "
                   "initialize()"});
  }
}

at::Tensor StepRunner::train_batch(const BatchPasses& passes) {
  check_passes(passes, "train_batch");
  if (!training_) {
    throw UsageError(
        {.what = "train_batch() while evaluating",
         .remedy = "call engine.train() first"});
  }
  if (trained_.pipeline) {
    return train_stages(passes.next());
  }
  return passes.repeatable() && can_repeat()
      ? train_repeated(*passes.repeatable())
      : train_whole(passes.forward());
}

at::Tensor StepRunner::train_stages(const pipeline::NextMicroBatch& next) {
  at::Tensor loss = trained_.pipeline->train_batch(
      next,
      static_cast<int>(job_.batch().accumulation));
  loss_parts_ = trained_.pipeline->loss_parts();
  offered_.warn_of_unused();
  monitor_.add_loss(loss);
  write_step();
  return loss;
}

/// Refuses to begin a batch where another has begun.
void StepRunner::check_accumulation() const {
  if (progress_.since_update != 0) {
    throw UsageError(
        {.what = "train_batch() in the middle of an accumulation",
         .values = fmt::format(
             "{} of {} micro batches are done",
             progress_.since_update,
             job_.batch().accumulation),
         .remedy = "call step() until the update, then train_batch()"});
  }
}

at::Tensor StepRunner::train_whole(const BatchPasses::Forward& forward) {
  check_accumulation();
  MeanLoss mean;
  for (std::int64_t left = job_.batch().accumulation; left > 0; --left) {
    const BatchLoss one = forward();
    mean.add(one);
    backward(one.loss);
    step();
  }
  loss_parts_ = mean.parts();
  return mean.loss();
}

/// The reason why backward passes need the host; empty if they do not.
std::string StepRunner::why_not_repeated() const {
  const config::DeepSpeedConfig& config = job_.deepspeed();
  if (!job_.device.is_cuda()) {
    return "it runs on the CPU";
  }
  if (job_.world.size() > 1 && job_.world.group().backend() != "nccl") {
    return "ranks talk through the host";
  }
  if (trained_.gatherer) {
    return "weights come and go";
  }
  if (trained_.reducer->options().rest_on_cpu) {
    return "gradients leave the GPU";
  }
  if (loss_is_scaled() || job_.precision.autocast) {
    return "the loss scale changes";
  }
  if (config.logging.wall_clock_breakdown ||
      (config.logging.steps_per_print.value_or(0) > 0 &&
       config.throughput_timer.enabled &&
       config.throughput_timer.synchronized)) {
    return "timers wait for the GPU (wall_clock_breakdown, steps_per_print)";
  }
  if (config.comms_logger.enabled) {
    return "calls between ranks are timed one by one (comms_logger)";
  }
  if (config.logging.memory_breakdown) {
    return "memory is shown at each phase of a step (memory_breakdown)";
  }
  return synchronise_ ? "" : "gradients are not synchronised";
}

bool StepRunner::can_repeat() {
  const std::string reason = why_not_repeated();
  if (!reason.empty() && !std::exchange(said_why_not_, true) && job_.speaks()) {
    job_.logger.info("passes are not recorded as a CUDA graph: {}", reason);
  }
  return reason.empty();
}

at::Tensor StepRunner::train_repeated(const RepeatablePass& pass) {
  check_accumulation();
  if (!recording_) {
    recording_ = recording_stream(job_.device);
    passes_.emplace(*recording_, job_.world.group());
    trained_.reducer->keep_sums();
  }
  MeanLoss mean;
  // The first update finds out where everything is. What is recorded has fp8
  // units of earlier updates, so there must be some.
  records_ = warm_updates_ >= std::max<std::int64_t>(pass.warm_up, 1) &&
      fp8_.are_ready();
  try {
    recording_->run([&] {
      for (std::int64_t left = job_.batch().accumulation; left > 0; --left) {
        mean.add(repeated(pass));
        step();
      }
    });
  } catch (...) {
    records_ = false;
    throw;
  }
  records_ = false;
  ++warm_updates_;
  loss_parts_ = mean.parts();
  return mean.loss();
}

/// Forward and backward pass of a micro batch.
BatchLoss StepRunner::repeated(const RepeatablePass& pass) {
  trained_.settle(); // a graph waits for nothing
  const PassInputs inputs = pass.next();
  const auto both = [&](const PassInputs& given) {
    BatchLoss one = pass.forward(given);
    differentiate(one.loss);
    return one;
  };
  const auto recorded = [&](const PassInputs& given) {
    BatchLoss one = both(given);
    // A graph ends when all that it has begun is over, sums over ranks too.
    trained_.reducer->finish_on_time();
    return one;
  };
  if (!records_) {
    BatchLoss loss = both(inputs);
    monitor_.add_loss(loss.loss);
    return loss;
  }
  const auto kind = RepeatedPasses::kind_of(
      inputs,
      {.adds = progress_.since_update > 0,
       .last = at_boundary(),
       .accumulation = job_.batch().accumulation});
  const bool is_new = passes_->is_new(kind);
  BatchLoss loss = passes_->run(kind, inputs, recorded);
  if (!is_new) {
    trained_.reducer->count_repeated(kind.place.last);
    progress_.backward_done = true;
  }
  monitor_.add_loss(loss.loss);
  return loss;
}

at::Tensor StepRunner::eval_batch(
    const BatchPasses& passes,
    std::int64_t micro_batches) {
  check_passes(passes, "eval_batch");
  const bool was_training = training_;
  train(false);
  at::Tensor loss;
  if (trained_.pipeline) {
    loss = trained_.pipeline->eval_batch(
        passes.next(),
        static_cast<int>(micro_batches));
    loss_parts_ = trained_.pipeline->loss_parts();
  } else {
    const torch::autograd::AutoGradMode no_grad(false);
    MeanLoss mean;
    for (std::int64_t i = 0; i < micro_batches; ++i) {
      mean.add(passes.forward()());
    }
    loss_parts_ = mean.parts();
    loss = mean.loss();
  }
  train(was_training);
  return loss;
}

} // namespace cairn::engine
