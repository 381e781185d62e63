#include "evaluate/internal/finetune.h"

#include "config/internal/actors.h"
#include "config/internal/reference.h"
#include "evaluate/finetune/epoch.h"
#include "evaluate/finetune/fine_tuner.h"
#include "evaluate/finetune/finetune_plan.h"
#include "pretrain/internal/build_model.h"

#include <ATen/Context.h>
#include <cairn/base/error.h>
#include <cairn/engine/initialize.h>
#include <cairn/optim/megatron_schedule.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <memory>
#include <optional>
#include <utility>

namespace cairn::evaluate {
namespace {

using distributed::Axis;

std::optional<TaskData> training_data(
    const FinetunePlan& plan,
    const config::Config& config,
    const TaskData::Options& options,
    const Logger& logger) {
  if (plan.epochs == 0) {
    return std::nullopt;
  }
  TaskData data(options, config.flags.validation.train_data, logger);
  for (const TaskData::File& file : data.files()) {
    if (!file.labelled) {
      throw DataError(
          {.what = "a test file without labels is nothing to train on",
           .where = file.path});
    }
  }
  return data;
}

/// Updates of an epoch. Throws DataError where there is none.
std::int64_t updates_of(
    const TaskData& data,
    const config::BatchConfig& batch,
    bool keep_last) {
  const EpochPlan epoch{
      .samples = data.size(),
      .micro_batch = batch.train,
      .keep_last = keep_last};
  if (epoch.updates() == 0) {
    throw DataError(
        {.what = "the training data have no whole batch",
         .where = "--train-data",
         .values =
             fmt::format("{} samples, batches of {}", data.size(), batch.train),
         .remedy = "lower --micro-batch-size, or add --keep-last, which trains "
                   "on a smaller last batch too"});
  }
  return epoch.updates();
}

/// The schedule that the flags describe, over all epochs; null if the JSON file
/// has one.
std::shared_ptr<const optim::Schedule> schedule_of(
    const config::Config& config,
    std::int64_t iterations) {
  if (config.deepspeed.scheduler.type) {
    return nullptr;
  }
  config::Flags flags = config.flags;
  flags.training.train_iters = iterations;
  return optim::megatron_schedule(
      optim::megatron_schedule_options(flags, config.deepspeed.batch->train),
      {{}, {.weight_decay_multiplier = 0}});
}

void seed_generators(
    const config::TrainingFlags& flags,
    const distributed::ProcessMesh& mesh) {
  // Ranks of a tensor group draw alike, data parallel ranks differently.
  torch::manual_seed(static_cast<std::uint64_t>(
      flags.seed + 1000003 * mesh.coordinate(Axis::data)));
  if (flags.deterministic) {
    at::globalContext().setDeterministicAlgorithms(true, false);
  }
}

/// The configuration of an evaluation: an optimizer that keeps no states.
config::Config without_optimizer(config::Config config) {
  if (!config.deepspeed.zero.offload_optimizer) {
    config.deepspeed.optimizer = {};
    config.deepspeed.optimizer.type = "sgd";
    config.deepspeed.optimizer.params.emplace().lr = 0;
  }
  config.deepspeed.scheduler = {};
  return config;
}

} // namespace

FinetuneReport finetune(
    const FinetuneOptions& options,
    const distributed::World& world,
    const Logger& logger) {
  const bool trains = options.config.flags.validation.epochs.value_or(1) > 0;
  const config::Config config =
      trains ? options.config : without_optimizer(options.config);
  const FinetunePlan plan = plan_finetuning(options);
  const Logger first =
      world.rank() == 0 ? logger : Logger({.least = LogLevel::error});
  first.info("arguments:{}", config::given_text(config));
  if (config.flags.checkpointing.load && !plan.start.goes_on) {
    first.info(
        "there is no checkpoint in {} yet",
        *config.flags.checkpointing.load);
  }
  distributed::ProcessMesh mesh =
      pretrain::mesh_of(config.flags.distributed, world.group());

  const TaskData::Options reading{
      .task = plan.task,
      .tokenizer = plan.tokenizer,
      .sequence_length = plan.sequence_length};
  std::optional<TaskData> training =
      training_data(plan, config, reading, first);
  TaskData validation(reading, config.flags.validation.valid_data, first);
  std::shared_ptr<const optim::Schedule> schedule;
  if (training) {
    schedule = schedule_of(
        config,
        plan.epochs *
            updates_of(
                *training,
                *config.deepspeed.batch,
                options.keep_last_batch));
  }

  seed_generators(config.flags.training, mesh);
  const auto later = std::make_shared<nn::LaterValues>();
  const auto kept = std::make_shared<KeptOutputs>();
  const auto model = make_task_model(
      {.task = plan.task,
       .description = plan.start.description,
       .config = config,
       .mesh = mesh,
       .device = at::Device(world.device_name()),
       .logger = first},
      later,
      kept);
  if (plan.start.pretrained) {
    const std::string fresh =
        load_pretrained(plan.start, *model, plan.task, *later);
    first.info(
        "weights of {} (format {}); {}",
        *config.flags.checkpointing.pretrained_checkpoint,
        checkpoints::name_of(plan.start.pretrained->format),
        fresh);
  }
  Initialized made = initialize(
      {.model = model,
       .later_values = later,
       .model_parameters = no_decay_groups(*model),
       .lr_scheduler = schedule,
       .lr_scheduler_counts_samples = schedule != nullptr,
       .mesh = mesh,
       .settings = config,
       .keys_acted_on = config::keys_acted_on_by(config::Actor::finetune),
       .description = plan.start.description,
       .world = world,
       .logger = logger});
  return FineTuner({.plan = plan,
                    .config = config,
                    .training = std::move(training),
                    .validation = std::move(validation),
                    .keep_last_batch = options.keep_last_batch,
                    .engine = made.engine,
                    .kept = kept,
                    .world = world,
                    .mesh = std::move(mesh),
                    .versions = options.versions,
                    .logger = first})
      .run();
}

} // namespace cairn::evaluate
