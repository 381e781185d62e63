#include "monitor/files/scalars.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace cairn::monitor {
namespace {

/// Curves over the three axes of Megatron-DeepSpeed.
class MegatronCurves {
 public:
  MegatronCurves(
      std::int64_t iteration,
      std::int64_t samples,
      std::int64_t tokens)
      : iteration_(iteration), samples_(samples), tokens_(tokens) {}

  void over_iterations(std::string name, double value) {
    scalars_.push_back({std::move(name), value, iteration_});
  }
  void over_tokens(std::string name, double value) {
    scalars_.push_back({std::move(name), value, tokens_});
  }
  void over_samples(std::string name, double value) {
    scalars_.push_back({std::move(name), value, samples_});
  }
  void over_all(const std::string& name, double value) {
    over_iterations(name, value);
    over_samples(name + " vs samples", value);
    over_tokens(name + " vs tokens", value);
  }
  std::vector<Scalar> take() { return std::move(scalars_); }

 private:
  std::int64_t iteration_, samples_, tokens_;
  std::vector<Scalar> scalars_;
};

void add_optimizer_curves(MegatronCurves& curves, const OptimizerNorms& norms) {
  const auto add = [&](std::string_view state, const StateNorms& of) {
    const auto one = [&](std::string_view kind, double value) {
      const std::string name = fmt::format("optimizer/{}_{}", state, kind);
      curves.over_iterations(name, value);
      curves.over_tokens(name + " vs tokens", value);
    };
    one("l2", of.l2);
    one("l1", of.l1);
    one("abs_max", of.abs_max);
  };
  add("variance", norms.variance);
  add("variance_sqrt", norms.variance_sqrt);
  add("momentum", norms.momentum);
  add("weight", norms.weight);
}

/// Adds the counts of iterations, samples and tokens, over each other.
void add_progress_curves(
    MegatronCurves& curves,
    const IterationValues& values) {
  const auto iteration = static_cast<double>(values.iteration);
  const auto samples = static_cast<double>(values.consumed_samples);
  const auto tokens = static_cast<double>(values.consumed_tokens);
  curves.over_samples("steps-vs-samples/y=steps,x=samples", iteration);
  curves.over_iterations("steps-vs-samples/y=samples,x=steps", samples);
  curves.over_tokens("steps-vs-tokens/y=steps,x=tokens", iteration);
  curves.over_iterations("steps-vs-tokens/y=tokens,x=steps", tokens);
}

/// Adds the learning rate, sizes and losses of the step.
void add_step_curves(
    MegatronCurves& curves,
    const IterationRecord& record,
    const config::LoggingFlags& choice) {
  const IterationValues& values = record.values;
  if (choice.learning_rate_to_tensorboard) {
    curves.over_all("learning-rate/learning-rate", values.learning_rate);
  }
  if (choice.batch_size_to_tensorboard) {
    curves.over_all(
        "batch-size/batch-size",
        static_cast<double>(values.batch_size));
  }
  for (const NamedValue& loss : values.losses) {
    curves.over_all("lm-loss-training/" + loss.name, loss.value);
  }
  if (values.loss_scale && choice.loss_scale_to_tensorboard) {
    curves.over_all("loss-scale/loss-scale", *values.loss_scale);
  }
  if (choice.world_size_to_tensorboard) {
    curves.over_all(
        "world-size/world-size",
        static_cast<double>(record.run.ranks));
  }
}

void add_norm_curves(MegatronCurves& curves, const IterationValues& values) {
  if (values.grad_norm) {
    curves.over_all("grad-norm/grad-norm", *values.grad_norm);
  }
  if (values.zeros_in_grad) {
    curves.over_all(
        "num-zeros/num-zeros",
        static_cast<double>(*values.zeros_in_grad));
  }
  if (values.params_norm) {
    curves.over_all("params-norm/params-norm", *values.params_norm);
  }
}

void add_length_curves(MegatronCurves& curves, const IterationValues& values) {
  curves.over_all(
      "seqlen/actual_seq_length",
      static_cast<double>(values.sequence_length));
  if (values.curriculum_length) {
    curves.over_all(
        "seqlen/curriculum_seqlen",
        static_cast<double>(*values.curriculum_length));
  }
  if (values.kept_length) {
    curves.over_all(
        "seqlen/random_ltd_reserved_length",
        static_cast<double>(*values.kept_length));
  }
}

void add_time_curves(MegatronCurves& curves, const IterationRecord& record) {
  for (const NamedValue& timer : record.values.timers) {
    curves.over_iterations(timer.name + "-time", timer.value / 1000.0);
  }
  if (record.speed) {
    curves.over_all("iteration-time/iteration-time", record.speed->seconds);
  }
}

} // namespace

std::vector<Scalar> megatron_scalars(
    const IterationRecord& record,
    const config::LoggingFlags& choice) {
  const IterationValues& values = record.values;
  MegatronCurves curves(
      values.iteration,
      values.consumed_samples,
      values.consumed_tokens);
  add_progress_curves(curves, values);
  add_step_curves(curves, record, choice);
  add_norm_curves(curves, values);
  add_length_curves(curves, values);
  if (values.memory && choice.memory_to_tensorboard) {
    curves.over_iterations(
        "mem-allocated-bytes",
        static_cast<double>(values.memory->bytes));
    curves.over_iterations(
        "mem-max-allocated-bytes",
        static_cast<double>(values.memory->peak_bytes));
  }
  if (values.optimizer && choice.optimizer_states_to_tensorboard) {
    add_optimizer_curves(curves, *values.optimizer);
  }
  if (choice.timers_to_tensorboard) {
    add_time_curves(curves, record);
  }
  return curves.take();
}

std::vector<Scalar> megatron_scalars(
    const ValidationValues& values,
    const config::LoggingFlags& choice) {
  MegatronCurves curves(
      values.iteration,
      values.consumed_samples,
      values.consumed_tokens);
  const std::string_view data =
      values.data == Evaluated::test ? "test" : "validation";
  for (const auto& [name, value] : values.losses) {
    const std::string curve =
        fmt::format("lm-loss-validation/{} {}", name, data);
    curves.over_all(curve, value);
    if (choice.validation_ppl_to_tensorboard) {
      curves.over_all(curve + " ppl", perplexity(value));
    }
  }
  return curves.take();
}

} // namespace cairn::monitor
