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

void Updater::run_repeated(RecordingStream& stream) {
  recording_ = &stream;
  try {
    run();
  } catch (...) {
    recording_ = nullptr;
    throw;
  }
  recording_ = nullptr;
}

void Updater::run() {
  {
    const monitor::TimerScope timed(timers_("allreduce"));
    gradients_.finish();
    if (trained_.gatherer) {
      trained_.gatherer->send_order();
    }
  }
  const bool repeated = repeats();
  if (!repeated) {
    const monitor::TimerScope timed(timers_("grad norm"));
    gradients_.measure();
  }
  if (trained_.gatherer) {
    trained_.gatherer->compare_orders();
  }
  if (watch_) {
    gradients_.show(watch_, gradients_.factor(progress_.scaler.scale()));
  }
  const monitor::TimerScope timed(timers_("optimizer"));
  if (repeated) {
    repeat();
    ++progress_.global_steps;
  } else if (update_ahead()) {
    ++progress_.global_steps;
  } else if (const double norm = gradients_.norm(progress_.scaler.scale());
             !checks_overflow() || std::isfinite(norm)) {
    update(norm);
    ++progress_.global_steps;
  } else if (
      overflow_.skip(gradients_.first_non_finite()) ==
      OverflowPolicy::Skipped::counts) {
    ++progress_.global_steps;
  }
  trained_.reducer->clear();
}

bool Updater::checks_overflow() const {
  const config::DeepSpeedConfig& config = job_.deepspeed();
  return config.fp16.enabled || config.amp.enabled ||
      (config.bf16.enabled && config.bf16.check_grad_overflow);
}

/// True when this update is recorded, or repeats a recorded one.
bool Updater::repeats() {
  return recording_ != nullptr && !checks_overflow() && !counts_zeros_ &&
      can_repeat();
}

/// Updates without waiting for the GPU, so that the host can queue the next
/// step. False where the host must look at the gradients first.
bool Updater::update_ahead() {
  if (checks_overflow() || counts_zeros_) {
    return false;
  }
  const auto clipped = gradients_.clip_on_gpu(
      progress_.scaler.scale(),
      job_.deepspeed().gradients.clipping);
  if (!clipped) {
    return false;
  }
  norm_ahead_ = clipped->norm;
  zeros_.reset();
  move({.on_gpu = clipped->factor});
  return true;
}

std::optional<double> Updater::gradient_norm() const {
  if (!norm_ahead_.defined()) {
    return norm_;
  }
  const auto norm = norm_ahead_.item<double>();
  if (!std::isfinite(norm) && job_.speaks()) {
    job_.logger.warning(
        "step {}: the gradient norm is {}",
        progress_.global_steps - 1,
        norm);
  }
  return norm;
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
  // Rounded, so that the order of the sum (stages, ranks) does not show.
  const double rounded = static_cast<float>(norm);
  norm_ = rounded;
  norm_ahead_.reset();
  zeros_ = counts_zeros_ ? std::optional(gradients_.zeros()) : std::nullopt;
  const double limit = job_.deepspeed().gradients.clipping;
  const double clip = limit > 0 ? std::min(1.0, limit / (rounded + 1e-6)) : 1.0;
  move({.number = gradients_.factor(progress_.scaler.scale()) * clip});
}

/// True when an update is the same work of the GPU every time.
bool Updater::can_repeat() {
  if (gradients_.stay_on_gpu() && trained_.optimizer->in_halves() != nullptr) {
    return true;
  }
  if (!std::exchange(said_why_not_, true) && job_.speaks()) {
    job_.logger.info(
        "the update is not recorded as a CUDA graph: {} is not one launch for "
        "all weights on the GPU",
        trained_.optimizer->name());
  }
  return false;
}

Updater::Kind Updater::kind() const {
  Kind kind{
      .factor = gradients_.factor(progress_.scaler.scale()),
      .limit = job_.deepspeed().gradients.clipping};
  for (int b = 0; b < trained_.trainable_buckets(); ++b) {
    kind.gradients.push_back(trained_.reducer->gradient(b).const_data_ptr());
  }
  return kind;
}

void Updater::repeat() {
  trained_.settle();
  trained_.optimizer->in_halves()->send_numbers(1);
  if (Kind now = kind(); !recorded_ || recorded_->kind != now) {
    record(std::move(now));
  }
  recorded_->work->repeat();
  norm_ahead_ = recorded_->norm;
  zeros_.reset();
  end_update();
}

void Updater::record(Kind kind) {
  recorded_.reset();
  Recorded recorded{.kind = std::move(kind)};
  const auto update = [&] {
    gradients_.measure_on_time(); // recorded passes have no latecomers
    const auto clipped = gradients_.clip_on_gpu(
        progress_.scaler.scale(),
        job_.deepspeed().gradients.clipping);
    recorded.norm = clipped.value().norm;
    trained_.optimizer->in_halves()->queue_update(
        *trained_.reducer,
        {.on_gpu = clipped->factor});
  };
  recorded.work =
      std::make_unique<RepeatedWork>(*recording_, job_.world.group(), update);
  recorded_.emplace(std::move(recorded));
}

void Updater::move(const zero::GradientFactor& factor) {
  trained_.optimizer->step(*trained_.reducer, factor);
  end_update();
}

/// Goes on to the values of the next update.
void Updater::end_update() {
  if (trained_.gatherer) {
    trained_.gatherer->release_all();
  }
  progress_.scaler.update(false);
  progress_.schedule.advance(job_.batch().train);
  progress_.schedule.apply_to(trained_.optimizer->groups());
}

} // namespace cairn::engine
