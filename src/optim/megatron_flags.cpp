#include <cairn/base/error.h>
#include <cairn/optim/megatron_schedule.h>

namespace cairn::optim {
namespace {

/// Converts lengths that people give in iterations, samples or tokens.
class Samples {
 public:
  Samples(const config::Flags& flags, std::int64_t batch)
      : batch_(batch), sequence_(flags.data.seq_length) {}

  std::optional<std::int64_t> of_iters(
      const std::optional<std::int64_t>& iters) const {
    return iters ? std::optional(*iters * batch_) : std::nullopt;
  }
  std::optional<std::int64_t> of_tokens(
      const std::optional<std::int64_t>& tokens) const {
    if (tokens && sequence_.value_or(0) < 1) {
      throw ConfigError(
          {.what = "a length in tokens needs --seq-length",
           .where = "learning-rate schedule"});
    }
    return tokens ? std::optional(*tokens / *sequence_) : std::nullopt;
  }

 private:
  std::int64_t batch_;
  std::optional<std::int64_t> sequence_;
};

std::optional<std::int64_t> positive(std::int64_t value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

} // namespace

MegatronScheduleOptions megatron_schedule_options(
    const config::Flags& flags,
    std::int64_t global_batch_size) {
  const config::LearningRateFlags& rate = flags.learning_rate;
  const config::TrainingFlags& training = flags.training;
  const config::RegularizationFlags& decay = flags.regularization;
  if (!rate.lr) {
    throw ConfigError({.what = "a learning rate is required", .where = "--lr"});
  }
  const Samples samples(flags, global_batch_size);
  const bool by_iterations = training.train_iters.has_value();
  const auto length = [&](const std::optional<std::int64_t>& iters,
                          const std::optional<std::int64_t>& count,
                          const std::optional<std::int64_t>& tokens) {
    const auto given = by_iterations ? samples.of_iters(iters) : count;
    return given ? given : samples.of_tokens(tokens);
  };
  const auto total = length(
      training.train_iters,
      training.train_samples,
      training.train_tokens);
  if (!total) {
    throw ConfigError(
        {.what = "the length of the training is required",
         .where = "learning-rate schedule",
         .remedy = "give --train-iters, --train-samples or --train-tokens"});
  }
  MegatronScheduleOptions options{
      .init_lr = rate.warmup_init,
      .max_lr = *rate.lr,
      .min_lr = rate.min_lr,
      .decay_style = rate.decay_style,
      .wsd_decay_samples =
          length(rate.wsd_decay_iters, rate.wsd_decay_samples, std::nullopt),
      .wsd_decay_style = rate.wsd_decay_style,
      .weight_decay_samples = *total,
      .weight_decay_style = decay.weight_decay_incr_style};
  options.decay_samples =
      length(rate.decay_iters, rate.decay_samples, rate.decay_tokens)
          .value_or(*total);
  const auto warmup = length(
      positive(rate.warmup_iters),
      positive(rate.warmup_samples),
      positive(rate.warmup_tokens));
  options.warmup_samples = rate.warmup_fraction
      ? *rate.warmup_fraction * static_cast<double>(options.decay_samples)
      : static_cast<double>(warmup.value_or(0));
  const double constant = decay.weight_decay.value_or(0.01);
  options.start_weight_decay = decay.start_weight_decay.value_or(constant);
  options.end_weight_decay = decay.end_weight_decay.value_or(constant);
  return options;
}

} // namespace cairn::optim
