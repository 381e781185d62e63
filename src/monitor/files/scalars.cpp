#include "monitor/files/scalars.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace cairn::monitor {
namespace {

/// Curves over one axis.
class CurvesOver {
 public:
  explicit CurvesOver(std::int64_t step) : step_(step) {}

  void add(std::string name, double value) {
    scalars_.push_back({std::move(name), value, step_});
  }
  template <typename T>
  void add(std::string name, const std::optional<T>& value) {
    if (value) {
      add(std::move(name), static_cast<double>(*value));
    }
  }
  std::vector<Scalar> take() { return std::move(scalars_); }

 private:
  std::int64_t step_;
  std::vector<Scalar> scalars_;
};

} // namespace

std::vector<Scalar> deepspeed_scalars(const IterationRecord& record) {
  const IterationValues& values = record.values;
  CurvesOver curves(values.consumed_samples);
  // DeepSpeed knows one loss; further losses of a model keep their names.
  for (std::size_t i = 0; i < values.losses.size(); ++i) {
    curves.add(
        "Train/Samples/" + (i == 0 ? "train_loss" : values.losses[i].name),
        values.losses[i].value);
  }
  curves.add("Train/Samples/lr", values.learning_rate);
  curves.add("Train/Samples/loss_scale", values.loss_scale);
  for (const NamedValue& timer : values.timers) {
    curves.add("Train/Samples/elapsed_time_ms_" + timer.name, timer.value);
  }
  return curves.take();
}

std::vector<Scalar> deepspeed_scalars(const ValidationValues& values) {
  CurvesOver curves(values.consumed_samples);
  const std::string_view data =
      values.data == Evaluated::test ? "test" : "eval";
  for (std::size_t i = 0; i < values.losses.size(); ++i) {
    const auto& [name, value] = values.losses[i];
    curves.add(
        i == 0 ? fmt::format("Train/Samples/{}_loss", data)
               : fmt::format("Train/Samples/{}_{}", data, name),
        value);
  }
  return curves.take();
}

std::vector<Scalar> plain_scalars(const IterationRecord& record) {
  const IterationValues& values = record.values;
  CurvesOver curves(values.iteration);
  curves.add("consumed samples", static_cast<double>(values.consumed_samples));
  curves.add("consumed tokens", static_cast<double>(values.consumed_tokens));
  for (const NamedValue& loss : values.losses) {
    curves.add(loss.name, loss.value);
  }
  curves.add("learning rate", values.learning_rate);
  curves.add("global batch size", static_cast<double>(values.batch_size));
  curves.add("sequence length", static_cast<double>(values.sequence_length));
  curves.add("curriculum seqlen", values.curriculum_length);
  curves.add("random ltd reserved length", values.kept_length);
  curves.add("loss scale", values.loss_scale);
  curves.add("grad norm", values.grad_norm);
  curves.add("params norm", values.params_norm);
  curves.add("num zeros", values.zeros_in_grad);
  curves.add("skipped iterations", static_cast<double>(values.skipped));
  curves.add("nan iterations", static_cast<double>(values.nan));
  for (const NamedValue& timer : values.timers) {
    curves.add(timer.name + " (ms)", timer.value);
  }
  if (values.memory) {
    curves.add("allocated bytes", static_cast<double>(values.memory->bytes));
    curves.add(
        "max allocated bytes",
        static_cast<double>(values.memory->peak_bytes));
  }
  if (record.speed) {
    const IterationSpeed& speed = *record.speed;
    curves.add("iteration (ms)", speed.seconds * 1000.0);
    curves.add("samples per second", speed.samples_per_second);
    curves.add("tokens per second", speed.tokens_per_second);
    curves.add("flops per second and rank", speed.flops_per_second);
    curves.add("MFU", speed.utilisation);
  }
  return curves.take();
}

std::vector<Scalar> plain_scalars(const ValidationValues& values) {
  CurvesOver curves(values.iteration);
  const std::string_view data =
      values.data == Evaluated::test ? "test" : "validation";
  for (const auto& [name, value] : values.losses) {
    curves.add(fmt::format("{} {}", data, name), value);
  }
  return curves.take();
}

} // namespace cairn::monitor
