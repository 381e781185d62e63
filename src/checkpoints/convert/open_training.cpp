#include "checkpoints/convert/native_state.h"
#include "checkpoints/internal/foreign_training.h"
#include "checkpoints/internal/lazy_source.h"
#include "checkpoints/internal/portable_checkpoint.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace cairn::checkpoints {

namespace {

ConvertOptions reading_of(
    const ForeignTrainingOptions& options,
    CheckpointFormat format) {
  ConvertOptions reading{.input = options.input, .megatron = options.megatron};
  reading.weights_only = !options.optimizer;
  if (options.step && format == CheckpointFormat::megatron) {
    reading.iteration = options.step;
  } else if (options.step && format == CheckpointFormat::dcp) {
    reading.tag = fmt::format("step-{}", *options.step);
  } else if (options.step) {
    reading.tag = fmt::format("global_step{}", *options.step);
  }
  return reading;
}

/// The run's optimizer, where it keeps the states of Adam: with decoupled decay
/// or not, they are the same.
std::string optimizer_name(
    const Portable& portable,
    const std::string& of_run) {
  std::vector<std::string> kinds = state_kinds(portable);
  std::erase(kinds, "step");
  const bool adam = kinds == std::vector<std::string>{"exp_avg", "exp_avg_sq"};
  return adam && (of_run == "adam" || of_run == "adamw") ? of_run : "";
}

} // namespace

ForeignTraining open_training(const ForeignTrainingOptions& options) {
  const CheckpointFormat format = detect_checkpoint_format(options.input);
  Portable portable = read_portable(format, reading_of(options, format));
  ForeignTraining training{
      .format = format,
      .description = portable.description,
      .weights = portable.parameters,
      .steps = portable.steps,
      .samples = portable.samples,
      .released = portable.released,
      .optimizer = !portable.optimizer_states.empty(),
      .loss_scaler = !portable.loss_scaler.is_none(),
      .schedule = portable.schedule_samples.has_value() ||
          portable.lr_scheduler.is(PythonValue::Kind::dict),
      .random_states = portable.random_states,
      .seed = portable.seed};
  training.tensors =
      std::make_shared<const LazySource>(native_tensors(portable));
  training.numbers =
      native_state(portable, optimizer_name(portable, options.optimizer_name))
          .dump();
  training.left_out = std::move(portable.left_out);
  return training;
}

} // namespace cairn::checkpoints
