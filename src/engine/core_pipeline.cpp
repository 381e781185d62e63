#include "engine/core.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

// A model that is cut into stages: the executor says when which pass runs, the
// engine what is around it.

namespace cairn::engine {

namespace {

std::function<pipeline::Schedule(int, int)> schedule_named(
    config::PipelineSchedule name,
    int chunks) {
  using config::PipelineSchedule;
  switch (name) {
    case PipelineSchedule::gpipe:
      return pipeline::gpipe;
    case PipelineSchedule::one_f_one_b:
      return pipeline::one_forward_one_backward;
    case PipelineSchedule::interleaved:
      return [chunks](int stages, int micro_batches) {
        return pipeline::interleaved(stages, micro_batches, chunks);
      };
    case PipelineSchedule::zero_bubble:
      return pipeline::zero_bubble_h1;
  }
  throw InternalError({.what = "an unknown schedule"});
}

/// Of a module with chunks it is the one that has them, unless told otherwise.
config::PipelineSchedule schedule_for(
    const pipeline::PipelineModule& module,
    const config::Config& config) {
  return module.chunks() > 1 && !config.given.contains("--pipeline-schedule")
      ? config::PipelineSchedule::interleaved
      : config.flags.distributed.pipeline_schedule;
}

} // namespace

void Core::make_pipeline() {
  auto* module = dynamic_cast<pipeline::PipelineModule*>(&model_.module());
  if (module == nullptr) {
    if (mesh_ && mesh_->degree(distributed::Axis::pipeline) > 1) {
      throw ConfigError(
          {.what = "pipeline stages need a model that is cut into them",
           .values = fmt::format(
               "{} stages",
               mesh_->degree(distributed::Axis::pipeline)),
           .remedy = "pass a cairn::pipeline::PipelineModule"});
    }
    return;
  }
  pipeline_ = std::make_unique<pipeline::Executor>(
      *module,
      mesh_ ? mesh_->along(distributed::Axis::pipeline)
            : distributed::ProcessGroup(),
      pipeline::ExecutorOptions{
          .schedule =
              schedule_named(schedule_for(*module, config_), module->chunks()),
          .device = device_,
          .hooks = {
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
                    if (last && gatherer_) { // the order of the whole batch
                      gatherer_->finish_pass(
                          zero::ParameterGatherer::Mode::training);
                    }
                  },
              .scale = [this](const at::Tensor& loss) { return scaled(loss); },
              .prepare = [this](const at::Tensor& x) { return prepared(x); },
              .step =
                  [this] {
                    counters_.micro_steps += batch().accumulation;
                    end_micro_step(true);
                  }}});
}

void Core::refuse_in_pipeline(std::string_view verb) const {
  if (pipeline_) {
    throw ConfigError(
        {.what = fmt::format("{}() of a model that is cut into stages", verb),
         .remedy = "call engine.train_batch(), which runs all of them"});
  }
}

at::Tensor Core::train_batch(const pipeline::NextMicroBatch& next) {
  if (!pipeline_) {
    throw ConfigError(
        {.what = "train_batch() needs a model that is cut into stages",
         .remedy = "pass a cairn::pipeline::PipelineModule to initialize(), or "
                   "call forward(), backward() and step()"});
  }
  if (!training_) {
    throw ConfigError(
        {.what = "train_batch() while evaluating",
         .remedy = "call engine.train() first"});
  }
  at::Tensor loss =
      pipeline_->train_batch(next, static_cast<int>(batch().accumulation));
  if (std::exchange(first_pass_, false)) {
    warn_of_unused_options();
  }
  monitor_.add_loss(loss);
  write_step();
  return loss;
}

at::Tensor Core::eval_batch(
    const pipeline::NextMicroBatch& next,
    std::int64_t micro_batches) {
  if (!pipeline_) {
    throw ConfigError(
        {.what = "eval_batch() needs a model that is cut into stages",
         .remedy = "call engine.eval() and forward()"});
  }
  const bool was_training = training_;
  train(false);
  at::Tensor loss =
      pipeline_->eval_batch(next, static_cast<int>(micro_batches));
  train(was_training);
  return loss;
}

std::vector<std::pair<std::string, at::Tensor>> Core::loss_parts() const {
  if (!pipeline_) {
    throw ConfigError(
        {.what = "loss_parts() needs a model that is cut into stages",
         .remedy = "pass a cairn::pipeline::PipelineModule to initialize()"});
  }
  return pipeline_->loss_parts();
}

} // namespace cairn::engine
