#include "pretrain/run/token_schedule.h"

#include <cairn/base/error.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

class AskedForSamples final : public optim::Schedule {
 public:
  AskedForSamples(
      std::shared_ptr<const optim::Schedule> by_tokens,
      TokenCount tokens)
      : by_tokens_(std::move(by_tokens)), tokens_(std::move(tokens)) {}

  std::vector<optim::GroupValuesPatch> at(std::int64_t done) const override {
    return by_tokens_->at(tokens_.at(done));
  }

 private:
  std::shared_ptr<const optim::Schedule> by_tokens_;
  TokenCount tokens_;
};

} // namespace

bool counts_tokens(const config::Flags& flags) {
  return flags.training.train_tokens || flags.learning_rate.decay_tokens ||
      flags.learning_rate.warmup_tokens > 0;
}

config::Flags in_tokens(config::Flags flags, const RunPlan& plan) {
  config::LearningRateFlags& rate = flags.learning_rate;
  config::TrainingFlags& training = flags.training;
  if (rate.wsd_decay_iters || rate.wsd_decay_samples) {
    throw ConfigError(
        {.what = "the decay of WSD is not counted in tokens",
         .where = "--lr-decay-style WSD",
         .remedy = "with a curriculum, give all lengths in iterations or all "
                   "in samples"});
  }
  const auto tokens = [&](const std::optional<std::int64_t>& iters,
                          const std::optional<std::int64_t>& samples)
      -> std::optional<std::int64_t> {
    if (iters) {
      return plan.tokens.at(*iters * plan.eval_batch);
    }
    return samples ? std::optional(plan.tokens.at(*samples)) : std::nullopt;
  };
  const auto given = [](std::int64_t length) {
    return length > 0 ? std::optional(length) : std::nullopt;
  };
  if (!rate.decay_tokens) {
    rate.decay_tokens = tokens(rate.decay_iters, rate.decay_samples);
  }
  if (rate.warmup_tokens == 0) {
    rate.warmup_tokens =
        tokens(given(rate.warmup_iters), given(rate.warmup_samples))
            .value_or(0);
  }
  if (!training.train_tokens) {
    training.train_tokens = plan.tokens.at(plan.samples);
  }
  rate.decay_iters = rate.decay_samples = std::nullopt;
  rate.warmup_iters = rate.warmup_samples = 0;
  training.train_iters = training.train_samples = std::nullopt;
  flags.data.seq_length = 1;
  return flags;
}

std::shared_ptr<const optim::Schedule> asked_for_samples(
    std::shared_ptr<const optim::Schedule> by_tokens,
    TokenCount tokens) {
  return std::make_shared<AskedForSamples>(
      std::move(by_tokens),
      std::move(tokens));
}

} // namespace cairn::pretrain
