#include "engine/core.h"

#include "engine/build/build_training.h"
#include "engine/build/unused_keys.h"

#include <span>
#include <utility>

namespace cairn::inline engine {

namespace {

/// Warns of odd settings. `acted_on` are keys that the program acts on.
void warn_of_keys(const Job& job, std::span<const std::string> acted_on) {
  if (!job.speaks()) {
    return;
  }
  for (const std::string& warning : job.config.warnings) {
    job.logger.warning("{}", warning);
  }
  for (const std::string& key : unused_keys(job.config, acted_on)) {
    job.logger.warning("{} is set, but the engine does not act on it yet", key);
  }
}

/// Logs the batch, the precision, the ZeRO policy and the size of the model.
void announce(const Job& job, const TrainedModel& trained) {
  if (!job.speaks()) {
    return;
  }
  job.logger.info("{}", config::describe(job.batch()));
  job.logger.info("{}", describe(job.precision));
  const std::size_t buckets = trained.layout->buckets().size();
  job.logger.info(
      "{}; {} parameters in {} bucket{} on {}",
      zero::describe(job.policy),
      trained.layout->elements(),
      buckets,
      buckets == 1 ? "" : "s",
      job.device.str());
  job.logger.debug("{}", trained.layout->describe());
  if (job.deepspeed().logging.dump_state) {
    job.logger.info("the configuration in force:\n{}", job.config.json());
  }
}

TrainedModel start_training(
    const Job& job,
    const OfferedOptions& offered,
    CoreOptions& options) {
  warn_of_keys(job, options.keys_acted_on);
  offered.warn_of_no_effect();
  return build_training(
      job,
      {.model = std::move(options.model),
       .later_values = std::move(options.later_values),
       .groups = std::move(options.groups),
       .client_optimizer = std::move(options.client_optimizer),
       .same_use_in_all_passes = options.same_use_in_all_passes});
}

optim::LossScaler scaler_for(const Job& job) {
  const config::DeepSpeedConfig& config = job.deepspeed();
  return job.precision.autocast ? optim::LossScaler::from(
                                      config.amp,
                                      job.precision.autocast_type == at::kHalf)
                                : optim::LossScaler::from(
                                      config.fp16,
                                      static_cast<int>(config.zero.stage));
}

RateSchedule schedule_for(
    const Job& job,
    const TrainedModel& trained,
    CoreOptions& options) {
  auto schedule = std::move(options.client_schedule);
  if (!schedule && job.deepspeed().scheduler.type) {
    schedule = optim::make_schedule(
        job.deepspeed().scheduler,
        trained.learning_rates());
  }
  return {std::move(schedule), options.schedule_counts};
}

} // namespace

Core::Core(CoreOptions options)
    : job(std::move(options.config),
          std::move(options.world),
          std::move(options.mesh),
          options.logger),
      memory(job, job.speaks() && !options.description),
      calls(job),
      offered(job),
      log(job.deepspeed(),
          job.logger,
          job.device,
          job.speaks(),
          std::move(options.timers)),
      monitor(
          {.config = job.deepspeed(),
           .speaks = job.speaks(),
           .keys_acted_on = options.keys_acted_on,
           .timers = log.shared_timers()},
          job.logger),
      trained(start_training(job, offered, options)),
      progress{
          .scaler = scaler_for(job),
          .schedule = schedule_for(job, trained, options)},
      owner(
          *trained.layout,
          trained.shares.parameters,
          static_cast<int>(trained.optimizer->groups().size()),
          {.groups = job.groups, .mesh = job.mesh}),
      state(job, trained, progress, owner),
      checkpoints(
          job,
          trained,
          progress,
          state,
          std::move(options.description)),
      updater(
          job,
          trained,
          progress,
          owner,
          {.at_minimum = job.deepspeed().fp16.at_minimum_scale,
           .logger = job.logger,
           .speaks = job.speaks(),
           .roll_back = [this] { return checkpoints.roll_back(); }},
          log.timers()),
      steps(
          {.job = job,
           .trained = trained,
           .progress = progress,
           .updater = updater,
           .offered = offered,
           .log = log,
           .monitor = monitor,
           .memory = memory}) {
  progress.schedule.apply_to(trained.optimizer->groups());
  announce(job, trained);
  memory.begin(trained);
}

} // namespace cairn::engine
