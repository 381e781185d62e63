#include "engine/core.h"

#include "engine/device_memory.h"
#include "kernels/cpu/cpu.h"
#include "zero/bucket_shard.h"
#include "zero/sum_of_squares.h"
#include "zero/sum_over.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <cmath>
#include <limits>

namespace cairn::engine {

void Core::begin_forward() {
  if (training_) {
    log_.begin_pass();
  }
  log_.timers()("forward").start();
  if (gatherer_ && !training_) {
    gatherer_->finish_pass(zero::ParameterGatherer::Mode::evaluation);
  }
  if (precision_.autocast) {
    at::autocast::set_autocast_dtype(device_.type(), precision_.autocast_type);
    at::autocast::set_autocast_enabled(device_.type(), true);
  }
}

void Core::end_forward(bool failed) {
  log_.timers()("forward").stop();
  if (precision_.autocast) {
    at::autocast::set_autocast_enabled(device_.type(), false);
    at::autocast::clear_cache();
  }
  if (gatherer_ && !failed) {
    gatherer_->rethrow();
  }
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
  return (counters_.micro_steps + 1) % batch().accumulation == 0;
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
  const double factor =
      scaler_.scale() / static_cast<double>(batch().accumulation);
  const at::Tensor scaled = factor == 1 ? loss : loss.to(at::kFloat) * factor;
  const monitor::TimerScope timed(log_.timers()("backward"));
  reducer_->begin(synchronise_ && at_boundary());
  try {
    torch::autograd::backward({scaled}, {});
    if (gatherer_) {
      gatherer_->rethrow();
    }
  } catch (...) {
    reducer_->abandon();
    throw;
  }
  reducer_->end();
  if (gatherer_) {
    gatherer_->finish_pass(zero::ParameterGatherer::Mode::training);
  }
  backward_done_ = synchronise_;
}

void Core::step() {
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
  if (boundary) {
    const monitor::TimerScope timed(log_.timers()("step"));
    finish_accumulation();
  }
  log_.end_step(
      {.global_step = counters_.global_steps,
       .skipped = counters_.skipped_steps,
       .ends_accumulation = boundary,
       .groups = optimizer_->groups()});
}

void Core::finish_accumulation() {
  reducer_->finish();
  const double norm =
      std::sqrt(reduced_sum_of_squares()) * after_ / scaler_.scale();
  if (skips(norm)) {
    skip_step();
  } else {
    update(norm);
  }
  reducer_->clear();
  ++counters_.global_steps;
}

/// Over all ranks that hold a part.
double Core::reduced_sum_of_squares() const {
  double sum = 0;
  for (int b = 0; b < flat_->buckets() && layout_->buckets()[b].trainable;
       ++b) {
    sum += zero::sum_of_squares(reducer_->gradient(b));
  }
  if (reducer_->options().shards) {
    sum =
        zero::sum_over(group_, at::full({1}, sum, at::kDouble)).item<double>();
  }
  return sum;
}

bool Core::skips(double norm) const {
  const bool checked = config().fp16.enabled ||
      (config().bf16.enabled && config().bf16.check_grad_overflow);
  return checked && !std::isfinite(norm);
}

/// The name of the first parameter with an inf or nan in its gradient.
std::string Core::first_non_finite() const {
  const bool shards = reducer_->options().shards;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (int b = 0; b < flat_->buckets() && layout_->buckets()[b].trainable;
       ++b) {
    const at::Tensor gradient = reducer_->gradient(b).cpu();
    const zero::Range range = shards
        ? layout_->shard(b, group_.rank())
        : zero::Range{0, layout_->buckets()[b].elements};
    for (const zero::Slice& slice : layout_->slices(b, range)) {
      const at::Tensor part = gradient.narrow(
          0,
          slice.offset - range.begin,
          slice.in_parameter.size());
      if (kernels::cpu::first_non_finite(
              part.const_data_ptr(),
              zero::element_of(part.scalar_type()),
              part.numel()) >= 0) {
        first = std::min<std::int64_t>(first, slice.parameter);
      }
    }
  }
  first = zero::sum_over(
              group_,
              at::full({1}, first, at::kLong),
              distributed::ReduceOp::min)
              .item<std::int64_t>();
  return first < static_cast<std::int64_t>(parameters_.names.size())
      ? parameters_.names[first]
      : "the sum of all";
}

void Core::skip_step() {
  const std::string culprit = first_non_finite();
  const double before = scaler_.scale();
  const optim::ScaleChange change = scaler_.update(true);
  ++counters_.skipped_steps;
  if (change == optim::ScaleChange::at_minimum) {
    throw Error(
        {.what = "gradients overflow at the smallest loss scale",
         .where = fmt::format("step {}, {}", counters_.global_steps, culprit),
         .values = fmt::format("loss scale {}", before),
         .remedy = "use bf16, lower the learning rate, or look at this "
                   "parameter's input"});
  }
  if (world_.rank() == 0) {
    logger_.warning(
        "step {} skipped: the gradient of {} is not finite; loss scale {} -> "
        "{}",
        counters_.global_steps,
        culprit,
        before,
        scaler_.scale());
  }
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
  const double limit = config().gradients.clipping;
  // Rounded, so that the order of the sum (stages, ranks) does not show.
  const double rounded = static_cast<float>(norm);
  const double clip = limit > 0 ? std::min(1.0, limit / (rounded + 1e-6)) : 1.0;
  optimizer_->step(*reducer_, after_ / scaler_.scale() * clip);
  if (gatherer_) {
    gatherer_->release_all();
  }
  scaler_.update(false);
  ++counters_.schedule_steps;
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

MemoryReport Core::memory_report() const {
  MemoryReport report;
  report.device = device_.str();
  const zero::FlatParameters::Bytes parameters = flat_->bytes();
  report.parameters = parameters.whole + parameters.shards;
  report.parameters_on_cpu = parameters.on_cpu;
  report.parameters_on_disk = parameters.on_disk;
  report.gathered = parameters.live;
  report.gradients = reducer_->bytes();
  report.gradients_on_cpu = reducer_->bytes_on_cpu();
  const zero::ShardTier::Bytes optimizer = optimizer_->bytes();
  report.optimizer = optimizer.memory;
  report.optimizer_on_disk = optimizer.disk;
  report.optimizer_on_cpu = policy_.optimizer_tier != zero::Tier::device;
  for (const at::Tensor& buffer : model_.module().buffers()) {
    report.buffers += static_cast<std::int64_t>(buffer.nbytes());
  }
  const monitor::AllocatedMemory held = allocated(device_);
  report.allocated = static_cast<std::int64_t>(held.bytes);
  report.most_allocated = static_cast<std::int64_t>(held.peak_bytes);
  const bool same_memory = !report.optimizer_on_cpu || device_.is_cpu();
  report.other = report.allocated - report.parameters - report.gathered -
      report.gradients - report.buffers - (same_memory ? report.optimizer : 0);
  return report;
}

} // namespace cairn::engine
