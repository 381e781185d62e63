#include "engine/core.h"

#include "zero/sum_of_squares.h"
#include "zero/sum_over.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <cairn/base/error.h>
#include <cairn/config/curriculum_length.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <cmath>
#include <utility>

namespace cairn::engine {

void Core::begin_forward() {
  refuse_in_pipeline("forward");
  enter_forward();
}

void Core::enter_forward() {
  in_forward_ = true;
  if (training_) {
    log_.begin_pass();
    activations_.begin_forward(gathered_bytes());
  }
  if (training_) {
    log_.timers()("forward").start();
  }
  if (gatherer_ && !training_) {
    gatherer_->finish_pass(zero::ParameterGatherer::Mode::evaluation);
  }
  if (precision_.autocast) {
    at::autocast::set_autocast_dtype(device_.type(), precision_.autocast_type);
    at::autocast::set_autocast_enabled(device_.type(), true);
  }
}

/// However it ended.
void Core::leave_forward() {
  if (!std::exchange(in_forward_, false)) {
    return;
  }
  if (training_) {
    log_.timers()("forward").stop();
  }
  if (precision_.autocast) {
    at::autocast::set_autocast_enabled(device_.type(), false);
    at::autocast::clear_cache();
  }
}

void Core::end_forward() {
  leave_forward();
  if (gatherer_) {
    gatherer_->rethrow();
  }
}

void Core::fail_forward() {
  leave_forward();
  try {
    if (gatherer_) {
      gatherer_->rethrow(); // which led to the other
    }
  } catch (...) {
    fail("forward");
  }
  fail("forward");
}

at::Tensor Core::prepared(const at::Tensor& input) const {
  if (!input.defined()) {
    return input;
  }
  return at::isFloatingType(input.scalar_type()) && !precision_.autocast
      ? input.to(device_, precision_.compute)
      : input.to(device_);
}

bool Core::at_boundary() const {
  return counters_.since_update + 1 == batch().accumulation;
}

void Core::set_train_batch_size(std::int64_t samples) {
  const std::int64_t share = batch().micro * batch().data_parallel;
  if (samples < 1 || samples % share != 0) {
    throw ConfigError(
        {.what = "the batch does not divide into micro batches",
         .where = "set_train_batch_size()",
         .values = fmt::format(
             "{} samples, {} ranks x micro batch {}",
             samples,
             batch().data_parallel,
             batch().micro)});
  }
  if (counters_.since_update != 0 || backward_done_) {
    throw ConfigError(
        {.what = "the batch size changes between updates only",
         .where = "set_train_batch_size()",
         .remedy = "call it right after the step() that updates"});
  }
  config_.deepspeed.batch->train = samples;
  config_.deepspeed.batch->accumulation = samples / share;
}

void Core::set_sync(bool on) {
  if (!on && policy_.partition_gradients) {
    throw ConfigError(
        {.what = "no_sync() needs whole gradients on every rank",
         .where = "zero_optimization.stage",
         .values =
             fmt::format("stage {}", static_cast<int>(config().zero.stage)),
         .remedy = "use stage 0 or 1, or gradient_accumulation_steps"});
  }
  synchronise_ = on;
}

void Core::backward(const at::Tensor& loss) {
  refuse_in_pipeline("backward");
  if (backward_done_ && synchronise_) {
    throw ConfigError(
        {.what = "backward() was called twice without step()",
         .remedy = "call engine.step() after every engine.backward(loss); with "
                   "gradient accumulation it updates only at the end"});
  }
  if (!training_) {
    throw ConfigError(
        {.what = "backward() while evaluating",
         .remedy = "call engine.train() first"});
  }
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad()) {
    throw ConfigError(
        {.what = "backward() needs a loss of one element with a gradient",
         .values = !loss.defined() ? "undefined"
                                   : fmt::format(
                                         "{} elements, requires_grad {}",
                                         loss.numel(),
                                         loss.requires_grad()),
         .remedy = "reduce it with mean(), and compute it with gradients on"});
  }
  if (std::exchange(first_pass_, false)) {
    warn_of_unused_options();
  }
  monitor_.add_loss(loss);
  run_backward(
      [&] { torch::autograd::backward({scaled(loss)}, {}); },
      synchronise_ && at_boundary());
  if (gatherer_) {
    gatherer_->finish_pass(zero::ParameterGatherer::Mode::training);
  }
  backward_done_ = synchronise_;
}

/// What backward starts from.
at::Tensor Core::scaled(const at::Tensor& loss) const {
  const double factor =
      scaler_.scale() / static_cast<double>(batch().accumulation);
  return factor == 1 ? loss : loss.to(at::kFloat) * factor;
}

void Core::run_backward(const std::function<void()>& pass, bool last) {
  activations_.begin_backward(gathered_bytes());
  try {
    {
      const monitor::TimerScope timed(log_.timers()("backward"));
      reducer_->begin(last);
      pass();
      if (gatherer_) {
        gatherer_->rethrow();
      }
    }
    const monitor::TimerScope timed(log_.timers()("allreduce"));
    reducer_->end();
  } catch (...) {
    reducer_->abandon();
    fail("backward");
  }
}

const nn::CheckpointOptions& Core::checkpoint_options() {
  checkpoint_options_used_ = true;
  return checkpoint_options_;
}

void Core::warn_of_unused_options() const {
  if (config_.given.contains("activation_checkpointing") &&
      !checkpoint_options_used_ && world_.rank() == 0) {
    logger_.warning(
        "activation_checkpointing is set, but the model does not use it; give "
        "engine.checkpoint_options() to its calls of cairn::checkpoint()");
  }
  if (config().curriculum.enabled && !curriculum_used_ && world_.rank() == 0) {
    logger_.warning(
        "curriculum_learning is set, but nobody asks for its length; cut every "
        "batch to engine.curriculum_seqlen()");
  }
}

std::optional<std::int64_t> Core::curriculum_seqlen() {
  curriculum_used_ = true;
  if (!config().curriculum.enabled || !training_) {
    return std::nullopt;
  }
  return config::curriculum_length(
      config().curriculum,
      counters_.global_steps + 1);
}

void Core::step() {
  refuse_in_pipeline("step");
  if (!synchronise_) {
    throw ConfigError(
        {.what = "step() inside no_sync()", .remedy = "leave the scope first"});
  }
  if (!backward_done_) {
    throw ConfigError(
        {.what = "step() without backward()",
         .remedy = "call engine.backward(loss) first"});
  }
  const bool boundary = at_boundary();
  backward_done_ = false;
  ++counters_.micro_steps;
  ++counters_.since_update;
  end_micro_step(boundary);
  if (boundary) {
    write_step();
  }
}

void Core::write_step() {
  StepMonitor::Step step{
      .global_step = counters_.global_steps,
      .samples = counters_.samples,
      .learning_rate = learning_rates().front()};
  if (loss_is_scaled()) {
    step.loss_scale = scaler_.scale();
  }
  monitor_.end_step(step);
}

void Core::end_micro_step(bool boundary) {
  if (boundary) {
    counters_.since_update = 0;
    counters_.samples += batch().train;
    try {
      finish_accumulation();
    } catch (...) {
      fail("step");
    }
  }
  log_.end_step(
      {.global_step = counters_.global_steps,
       .skipped = counters_.skipped_steps,
       .ends_accumulation = boundary,
       .groups = optimizer_->groups()});
}

void Core::finish_accumulation() {
  {
    const monitor::TimerScope timed(log_.timers()("allreduce"));
    reducer_->finish();
    sum_shared_gradients();
  }
  if (gradient_watch_) {
    show_gradients();
  }
  const monitor::TimerScope timed(log_.timers()("optimizer"));
  const double norm = reduced_norm();
  if (!overflows(norm)) {
    update(norm);
    ++counters_.global_steps;
  } else if (skip_step() == Skipped::counts) {
    ++counters_.global_steps;
  }
  reducer_->clear();
}

/// After which every rank that holds a parameter has all of its gradient.
void Core::sum_shared_gradients() {
  for (const SharedGradient& shared : shared_gradients_) {
    at::Tensor gradient = reducer_->gradient(shared.bucket);
    if (gradient.device() == device_) {
      shared.group.all_reduce(gradient).wait();
    } else {
      gradient.copy_(zero::sum_over(shared.group, gradient));
    }
  }
}

double Core::reduced_norm() {
  const monitor::TimerScope timed(log_.timers()("grad norm"));
  return std::sqrt(reduced_sum_of_squares()) * after_ / scaler_.scale();
}

/// Over all ranks that hold a part.
double Core::reduced_sum_of_squares() const {
  double sum = 0;
  double of_experts = 0;
  bool any_experts = false;
  for (int b = 0; b < flat_->buckets() && layout_->buckets()[b].trainable;
       ++b) {
    const int first = layout_->buckets()[b].members.front().parameter;
    const bool expert = layout_->buckets()[b].expert;
    any_experts |= expert;
    if (speaks_for(shares_.parameters[first])) {
      (expert ? of_experts : sum) +=
          zero::sum_of_squares(reducer_->gradient(b));
    }
  }
  if (any_experts && !reducer_->options().shards) { // others have other ones
    of_experts = zero::sum_over(
                     mesh_->along(distributed::Axis::expert),
                     at::full({1}, of_experts, at::kDouble))
                     .item<double>();
  }
  sum += of_experts;
  if (reducer_->options().shards) {
    sum = zero::sum_over(groups_.shards, at::full({1}, sum, at::kDouble))
              .item<double>();
  }
  if (mesh_) {
    sum =
        zero::sum_over(mesh_->model_parallel(), at::full({1}, sum, at::kDouble))
            .item<double>();
  }
  return sum;
}

void Core::update(double norm) {
  if (!std::isfinite(norm)) {
    const std::string culprit = first_non_finite();
    if (world_.rank() == 0) {
      logger_.warning(
          "step {}: the gradient norm is {}, first in {}",
          counters_.global_steps,
          norm,
          culprit);
    }
  }
  gradient_norm_ = norm;
  zeros_ = counts_zeros_ ? std::optional(count_zeros()) : std::nullopt;
  const double limit = config().gradients.clipping;
  // Rounded, so that the order of the sum (stages, ranks) does not show.
  const double rounded = static_cast<float>(norm);
  const double clip = limit > 0 ? std::min(1.0, limit / (rounded + 1e-6)) : 1.0;
  optimizer_->step(*reducer_, after_ / scaler_.scale() * clip);
  if (gatherer_) {
    gatherer_->release_all();
  }
  scaler_.update(false);
  counters_.schedule_steps += schedule_counts_samples_ ? batch().train : 1;
  apply_schedule();
}

std::vector<double> Core::learning_rates() const {
  std::vector<double> rates;
  for (const optim::GroupValues& group : optimizer_->groups()) {
    rates.push_back(group.lr);
  }
  return rates;
}

void Core::train(bool on) {
  training_ = on;
  model_.module().train(on);
  if (gatherer_) {
    using Mode = zero::ParameterGatherer::Mode;
    gatherer_->set_mode(on ? Mode::training : Mode::evaluation);
  }
}

at::Tensor Core::full_parameter(const std::string& name) {
  const torch::autograd::AutoGradMode no_grad(false);
  const int number = parameters_.number_of(name);
  const int bucket = layout_->bucket_of(number);
  if (gatherer_) {
    gatherer_->pin(bucket);
  }
  at::Tensor copy = parameters_.tensors[number].detach().clone();
  if (gatherer_) {
    gatherer_->unpin(bucket);
  }
  return copy;
}

} // namespace cairn::engine
