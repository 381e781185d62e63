#include "engine/step/updater.h"

#include <algorithm>
#include <cmath>

namespace cairn::inline engine {

Updater::Updater(
    const Job& job,
    TrainedModel& trained,
    Progress& progress,
    const SliceOwner& owner,
    OverflowPolicy::Options overflow,
    monitor::Timers& timers)
    : job_(job),
      trained_(trained),
      progress_(progress),
      gradients_(job, trained, owner),
      overflow_(progress, std::move(overflow)),
      timers_(timers) {}

void Updater::run() {
  {
    const monitor::TimerScope timed(timers_("allreduce"));
    gradients_.finish();
  }
  const double scale = progress_.scaler.scale();
  if (watch_) {
    gradients_.show(watch_, gradients_.factor(scale));
  }
  const monitor::TimerScope timed(timers_("optimizer"));
  double norm = 0;
  {
    const monitor::TimerScope norm_timed(timers_("grad norm"));
    norm = gradients_.norm(scale);
  }
  if (!overflows(norm)) {
    update(norm);
    ++progress_.global_steps;
  } else if (
      overflow_.skip(gradients_.first_non_finite()) ==
      OverflowPolicy::Skipped::counts) {
    ++progress_.global_steps;
  }
  trained_.reducer->clear();
}

bool Updater::overflows(double norm) const {
  const config::DeepSpeedConfig& config = job_.deepspeed();
  const bool checked = config.fp16.enabled || config.amp.enabled ||
      (config.bf16.enabled && config.bf16.check_grad_overflow);
  return checked && !std::isfinite(norm);
}

void Updater::update(double norm) {
  if (!std::isfinite(norm)) {
    const std::string culprit = gradients_.first_non_finite();
    if (job_.speaks()) {
      job_.logger.warning(
          "step {}: the gradient norm is {}, first in {}",
          progress_.global_steps,
          norm,
          culprit);
    }
  }
  norm_ = norm;
  zeros_ = counts_zeros_ ? std::optional(gradients_.zeros()) : std::nullopt;
  const double limit = job_.deepspeed().gradients.clipping;
  // Rounded, so that the order of the sum (stages, ranks) does not show.
  const double rounded = static_cast<float>(norm);
  const double clip = limit > 0 ? std::min(1.0, limit / (rounded + 1e-6)) : 1.0;
  trained_.optimizer->step(
      *trained_.reducer,
      gradients_.factor(progress_.scaler.scale()) * clip);
  if (trained_.gatherer) {
    trained_.gatherer->release_all();
  }
  progress_.scaler.update(false);
  progress_.schedule.advance(job_.batch().train);
  progress_.schedule.apply_to(trained_.optimizer->groups());
}

} // namespace cairn::engine
