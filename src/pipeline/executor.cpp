#include <cairn/pipeline/executor.h>

#include "pipeline/batch_run.h"
#include "pipeline/check.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace cairn::pipeline {
namespace {

/// Keeps a module in evaluation mode for as long as it lives.
class Evaluating {
 public:
  explicit Evaluating(torch::nn::Module& module)
      : module_(module), was_training_(module.is_training()) {
    module_.train(false);
  }
  ~Evaluating() { module_.train(was_training_); }
  Evaluating(const Evaluating&) = delete;
  Evaluating& operator=(const Evaluating&) = delete;

 private:
  torch::nn::Module& module_;
  bool was_training_;
};

std::string reason_in(const std::exception& error) {
  const auto* theirs = dynamic_cast<const c10::Error*>(&error);
  return theirs != nullptr ? theirs->what_without_backtrace() : error.what();
}

} // namespace

struct Executor::State {
  State(
      PipelineModule& the_module,
      distributed::ProcessGroup pipeline,
      ExecutorOptions given)
      : module(the_module),
        group(std::move(pipeline)),
        // Every stage makes the second group here, at the same time.
        gradients(group.size() > 1 ? group.split(0) : group),
        options(std::move(given)),
        training(links()),
        evaluation(links()),
        ties(module, [this](int stage) { return channel_to(stage); }) {}

  Channel channel_to(int stage) {
    return Channel(
        {.activations = group, .gradients = gradients},
        stage,
        options.device,
        module.announce(),
        outbox);
  }
  /// Neighbours of each chunk. The last stage's chunk is followed by the first
  /// stage's next one.
  std::vector<Links> links() {
    const int stages = module.stages();
    std::vector<Links> result;
    for (int chunk = 0; chunk < module.chunks(); ++chunk) {
      Links& each = result.emplace_back();
      if (!module.is_first(chunk)) {
        each.previous.emplace(
            channel_to((module.stage() + stages - 1) % stages));
      }
      if (!module.is_last(chunk)) {
        each.next.emplace(channel_to((module.stage() + 1) % stages));
      }
    }
    return result;
  }

  const Schedule& training_schedule(int micro_batches) {
    return cached(training_schedules, options.schedule, micro_batches);
  }
  const Schedule& inference_schedule(int micro_batches) {
    const auto forward_only = [this](int stages, int count) {
      return inference(stages, count, module.chunks());
    };
    return cached(inference_schedules, forward_only, micro_batches);
  }
  template <typename Make>
  const Schedule& cached(
      std::map<int, Schedule>& schedules,
      const Make& make,
      int micro_batches) {
    const auto found = schedules.find(micro_batches);
    if (found != schedules.end()) {
      return found->second;
    }
    Schedule schedule = make(module.stages(), micro_batches);
    check(schedule);
    if (module.announce() == Announce::each_message) {
      schedule = with_late_messages(schedule);
    }
    if (static_cast<int>(schedule.stages.size()) != module.stages()) {
      throw UsageError(
          {.what = "a schedule for another number of stages",
           .where = fmt::format("schedule {}", schedule.name),
           .values = fmt::format(
               "{}, not {}",
               schedule.stages.size(),
               module.stages())});
    }
    if (schedule.chunks != module.chunks()) {
      throw UsageError(
          {.what = "a schedule for another number of chunks on each stage",
           .where = fmt::format("schedule {}", schedule.name),
           .values =
               fmt::format("{}, not {}", schedule.chunks, module.chunks()),
           .remedy = "make module and schedule with the same chunks; only "
                     "interleaved() has several"});
    }
    return schedules.emplace(micro_batches, std::move(schedule)).first->second;
  }

  /// Runs `work`. If it fails, the other stages hear of it at once instead of
  /// waiting for messages that never come.
  template <typename Work>
  void together(const char* what, const Work& work) {
    try {
      work();
      outbox.finish();
    } catch (const CommError&) {
      throw; // the others know
    } catch (const std::exception& error) {
      group.fail(what, reason_in(error));
      throw;
    } catch (...) {
      group.fail(what, "an unknown exception");
      throw;
    }
  }

  /// Gives all stages the last stage's losses.
  at::Tensor agree_on(at::Tensor losses) {
    group.broadcast(losses, module.stages() - 1).wait();
    loss_parts.clear();
    for (const std::string& name : module.loss_parts()) {
      const auto place = static_cast<std::int64_t>(loss_parts.size()) + 1;
      loss_parts.emplace_back(name, losses.select(0, place));
    }
    return losses.select(0, 0);
  }

  PipelineModule& module;
  distributed::ProcessGroup group;
  distributed::ProcessGroup gradients; ///< the same ranks, for gradients
  ExecutorOptions options;
  Outbox outbox;
  std::vector<Links> training;
  std::vector<Links> evaluation;
  TiedWeights ties;
  std::map<int, Schedule> training_schedules; ///< by micro batches
  std::map<int, Schedule> inference_schedules;
  int most_live = 0;
  std::vector<std::pair<std::string, at::Tensor>> loss_parts;
};

Executor::Executor(
    PipelineModule& module,
    distributed::ProcessGroup pipeline,
    ExecutorOptions options) {
  if (pipeline.size() != module.stages() || pipeline.rank() != module.stage()) {
    throw UsageError(
        {.what = "a pipeline module was made for another place",
         .values = fmt::format(
             "stage {} of {}; the group has rank {} of {}",
             module.stage(),
             module.stages(),
             pipeline.rank(),
             pipeline.size()),
         .remedy = "make it with {.stage = pipeline.rank(), .stages = "
                   "pipeline.size()}"});
  }
  state_ =
      std::make_unique<State>(module, std::move(pipeline), std::move(options));
  share_tied_weights();
}

Executor::~Executor() = default;

at::Tensor Executor::train_batch(
    const NextMicroBatch& next,
    int micro_batches) {
  State& s = *state_;
  const Schedule& schedule = s.training_schedule(micro_batches);
  at::Tensor loss;
  s.together("train_batch", [&] {
    BatchRun run(
        {s.module, s.options.hooks, s.options.device, s.training, s.ties},
        schedule,
        next,
        BatchRun::Wanted::losses);
    run.run();
    s.most_live = std::max(s.most_live, run.most_live_activations());
    loss = s.agree_on(run.losses());
  });
  return loss;
}

at::Tensor Executor::eval_batch(const NextMicroBatch& next, int micro_batches) {
  State& s = *state_;
  const Schedule& schedule = s.inference_schedule(micro_batches);
  const Evaluating evaluating(s.module);
  at::Tensor loss;
  s.together("eval_batch", [&] {
    BatchRun run(
        {s.module, s.options.hooks, s.options.device, s.evaluation, s.ties},
        schedule,
        next,
        BatchRun::Wanted::losses);
    run.run();
    loss = s.agree_on(run.losses());
  });
  return loss;
}

std::vector<Tensors> Executor::infer(
    const NextMicroBatch& next,
    int micro_batches) {
  State& s = *state_;
  const Schedule& schedule = s.inference_schedule(micro_batches);
  const Evaluating evaluating(s.module);
  std::vector<Tensors> outputs;
  s.together("infer", [&] {
    BatchRun run(
        {s.module, s.options.hooks, s.options.device, s.evaluation, s.ties},
        schedule,
        next,
        BatchRun::Wanted::outputs);
    run.run();
    outputs = run.take_outputs();
  });
  return outputs;
}

void Executor::share_tied_weights() {
  state_->together("share_tied_weights", [&] {
    state_->ties.begin_batch();
    state_->ties.share();
  });
}

const std::vector<std::pair<std::string, at::Tensor>>& Executor::loss_parts()
    const {
  return state_->loss_parts;
}

int Executor::most_live_activations() const {
  return state_->most_live;
}

} // namespace cairn::pipeline
