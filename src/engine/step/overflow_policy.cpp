#include "engine/step/overflow_policy.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <bit>
#include <utility>

namespace cairn::inline engine {

OverflowPolicy::OverflowPolicy(Progress& progress, Options options)
    : progress_(progress), options_(std::move(options)) {}

OverflowPolicy::Skipped OverflowPolicy::skip(const std::string& culprit) {
  const double before = progress_.scaler.scale();
  const optim::ScaleChange change = progress_.scaler.update(true);
  ++progress_.skipped_steps;
  if (change == optim::ScaleChange::at_minimum) {
    return skip_at_minimum(culprit);
  }
  if (options_.speaks) {
    options_.logger.warning(
        "step {} skipped: the gradient of {} is not finite; loss scale {} -> "
        "{}",
        progress_.global_steps,
        culprit,
        before,
        progress_.scaler.scale());
  }
  return Skipped::counts;
}

OverflowPolicy::Skipped OverflowPolicy::skip_at_minimum(
    const std::string& culprit) {
  switch (options_.at_minimum) {
    case config::AtMinimumScale::stop:
      break;
    case config::AtMinimumScale::hold:
      ++held_steps_;
      // A run that has come to nothing would fill its log with these.
      if (options_.speaks && std::has_single_bit(held_steps_)) {
        options_.logger.warning(
            "step {} skipped at the smallest loss scale {}: the gradient of {} "
            "is not finite; {} so far",
            progress_.global_steps,
            progress_.scaler.scale(),
            culprit,
            held_steps_);
      }
      return Skipped::counts;
    case config::AtMinimumScale::roll_back:
      roll_back(culprit);
      return Skipped::is_undone;
  }
  stop(culprit, "");
}

/// Goes back once: what has failed twice in the same place, or in an earlier
/// one, would fail for ever.
void OverflowPolicy::roll_back(const std::string& culprit) {
  const std::int64_t failed = progress_.global_steps;
  if (failed <= rolled_back_from_) {
    stop(
        culprit,
        fmt::format(
            "; a roll back from step {} did not help",
            rolled_back_from_));
  }
  const auto place = options_.roll_back();
  if (!place) {
    stop(culprit, "; there is no checkpoint to roll back to");
  }
  rolled_back_from_ = failed;
  if (options_.speaks) {
    options_.logger.warning(
        "gradients overflow at the smallest loss scale in step {}, first that "
        "of {}: rolled back to step {}, {}",
        failed,
        culprit,
        progress_.global_steps,
        place->string());
  }
}

void OverflowPolicy::stop(const std::string& culprit, const std::string& why)
    const {
  throw Error(
      {.what = "gradients overflow at the smallest loss scale" + why,
       .where = fmt::format("step {}, {}", progress_.global_steps, culprit),
       .values = fmt::format("loss scale {}", progress_.scaler.scale()),
       .remedy = "use bf16, lower the learning rate, or look at this "
                 "parameter's input"});
}

} // namespace cairn::engine
