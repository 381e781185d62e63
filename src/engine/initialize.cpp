#include <cairn/engine/initialize.h>

#include "config/internal/elastic_batch.h"
#include "engine/core.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>

#include <optional>
#include <utility>

namespace cairn::inline engine {

namespace {

config::ConfigSource source_of(
    const InitializeOptions& options,
    std::int64_t data_parallel) {
  config::ConfigSource source{.world_size = data_parallel};
  const bool from_args = options.args && options.args->deepspeed_config;
  if (from_args && options.config) {
    throw ConfigError(
        {.what = "the configuration is given twice",
         .where = "initialize()",
         .values = "--deepspeed_config " + *options.args->deepspeed_config +
             " and .config",
         .remedy = "give one of them"});
  }
  if (from_args) {
    source.file = options.args->deepspeed_config;
  } else if (options.config) {
    const std::size_t first = options.config->find_first_not_of(" \t\r\n");
    const bool is_text =
        first != std::string::npos && (*options.config)[first] == '{';
    (is_text ? source.json : source.file) = options.config;
  } else if (options.args) {
    throw ConfigError(
        {.what = "there is no configuration",
         .remedy = "start the program with --deepspeed_config FILE"});
  } else {
    throw UsageError(
        {.what = "there is no configuration",
         .where = "initialize()",
         .remedy = "pass .args of the command line, or .config = a path or a "
                   "JSON text"});
  }
  return source;
}

/// The mesh that the options give, as such or as groups.
std::optional<distributed::ProcessMesh> mesh_in(
    const InitializeOptions& options,
    const distributed::World& world) {
  if (!options.parallel_groups) {
    return options.mesh;
  }
  if (options.mesh) {
    throw UsageError(
        {.what = "the groups of ranks are given twice",
         .where = "initialize()",
         .values = ".mesh and .parallel_groups",
         .remedy = "give one of them"});
  }
  return distributed::ProcessMesh::from_groups(
      world.group(),
      *options.parallel_groups);
}

} // namespace

Initialized initialize(InitializeOptions options) {
  distributed::World world =
      options.world ? *options.world : distributed::init_distributed();
  const std::optional<distributed::ProcessMesh> mesh = mesh_in(options, world);
  distributed::ProcessGroup data_parallel =
      mesh ? mesh->along(distributed::Axis::data) : world.group();
  const Logger logger = options.logger.value_or(
      Logger({.rank = world.rank(), .world_size = world.size()}));
  if (options.args) {
    for (const std::string& warning : options.args->warnings) {
      logger.warning("{}", warning);
    }
  }
  config::Config config = options.settings
      ? std::move(*options.settings)
      : config::Config::load(source_of(options, data_parallel.size()));
  if (!options.settings) {
    config::require_model_ranks(
        config.deepspeed.elasticity,
        world.size() / data_parallel.size());
  }
  const bool drop_last = config.deepspeed.dataloader.drop_last;

  auto core = std::make_shared<Core>(CoreOptions{
      .config = std::move(config),
      .model = std::move(options.model),
      .later_values = std::move(options.later_values),
      .groups = std::move(options.model_parameters),
      .client_optimizer = std::move(options.optimizer),
      .client_schedule = std::move(options.lr_scheduler),
      .schedule_counts = options.lr_scheduler_counts_samples
          ? RateSchedule::Counts::samples
          : RateSchedule::Counts::updates,
      .world = std::move(world),
      .mesh = mesh,
      .same_use_in_all_passes = options.same_use_in_all_passes,
      .keys_acted_on = std::move(options.keys_acted_on),
      .timers = std::move(options.timers),
      .description = std::move(options.description),
      .logger = logger});

  TrainingLoader loader;
  if (options.training_data) {
    loader = TrainingLoader(
        std::move(options.training_data),
        {.sampler =
             {.batch_size = core->job.batch().micro,
              .parallel =
                  {.rank = data_parallel.rank(), .size = data_parallel.size()},
              .drop_last_batch = drop_last},
         .collate = std::move(options.collate),
         .device = core->job.device});
    core->checkpoints.set_loader(loader.place());
  }
  return {Engine(core), Optimizer(core), std::move(loader), LearningRate(core)};
}

} // namespace cairn::engine
