#include "pretrain/internal/pretrain.h"

#include "config/internal/actors.h"
#include "config/internal/reference.h"
#include "data/internal/index_agreement.h"
#include "engine/internal/out_of_memory_error.h"
#include "models/internal/load_weights.h"
#include "pretrain/internal/build_model.h"
#include "pretrain/internal/pretraining_data.h"
#include "pretrain/internal/stages.h"
#include "pretrain/model/parameter_groups.h"
#include "pretrain/plan/checked_run.h"
#include "pretrain/plan/run_estimate.h"
#include "pretrain/run/step_times.h"
#include "pretrain/run/trainer.h"

#include <ATen/Context.h>
#include <cairn/base/error.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/initialize.h>
#include <torch/utils.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

void seed_generators(
    const config::TrainingFlags& flags,
    const distributed::ProcessMesh& mesh) {
  // Ranks of a tensor group draw alike, data parallel ranks differently.
  torch::manual_seed(
      static_cast<std::uint64_t>(flags.seed) +
      1000003 *
          static_cast<std::uint64_t>(
              mesh.data_context().rank() *
                  mesh.degree(distributed::Axis::pipeline) +
              mesh.coordinate(distributed::Axis::pipeline)));
  if (flags.deterministic) {
    at::globalContext().setDeterministicAlgorithms(true, false);
  }
}

void require_same_order(
    const PretrainingData& data,
    const distributed::ProcessGroup& world) {
  data::require_agreement(
      "the order of samples",
      data.checksum,
      [&](std::uint64_t mine) {
        at::Tensor number = at::full(
            {1},
            static_cast<std::int64_t>(mine),
            at::TensorOptions(at::kLong).device(
                world.backend() == "nccl" ? at::kCUDA : at::kCPU));
        const at::Tensor all = world.all_gather(number).wait().cpu();
        const auto* begin = all.const_data_ptr<std::int64_t>();
        return std::vector<std::uint64_t>(begin, begin + all.numel());
      });
}

/// Trains a run that has been checked.
Outcome train(
    const CheckedRun& checked,
    const RunPrediction& prediction,
    Kind kind,
    const config::Config& config,
    const distributed::World& world,
    const Logger& logger,
    const std::vector<std::pair<std::string, std::string>>& versions) {
  const auto& [plan, schedule, tokenizer, description, foreign, notes] =
      checked;
  distributed::ProcessMesh mesh =
      mesh_of(config.flags.distributed, world.group());

  PretrainingData data = open_data(
      kind,
      config.flags,
      *tokenizer,
      plan.samples_needed(),
      world.rank() == 0 ? logger : Logger({.least = LogLevel::error}));
  require_same_order(data, world.group());

  seed_generators(config.flags.training, mesh);
  // No rank has the whole model at any time, if the ranks share its parameters.
  const auto later = std::make_shared<nn::LaterValues>();
  BuildOptions building = build_options(description, config.flags);
  building.later = later;
  const bool has_weights = foreign && foreign->weights_only;
  if (has_weights) {
    building.seed.reset();
  }
  const Model model = build_model(
      description,
      config,
      mesh,
      at::Device(world.device_name()),
      logger,
      building);
  if (has_weights) {
    models::load_weights_later(
        model.module(),
        description,
        foreign->training.weights,
        *later);
  }
  const auto timers = make_timers(config, at::Device(world.device_name()));
  Initialized made = initialize(
      {.model = model,
       .later_values = later,
       .model_parameters =
           parameter_groups(model.module(), config.flags.learning_rate),
       .lr_scheduler = schedule,
       .lr_scheduler_counts_samples = schedule != nullptr,
       .mesh = mesh,
       .same_use_in_all_passes = true,
       .settings = config,
       .keys_acted_on = config::keys_acted_on_by(config::Actor::pretrain),
       .timers = timers,
       .description = description,
       .world = world,
       .logger = logger});

  models::PretrainingOptions pretraining;
  if (config.flags.data.reset_attention_mask) {
    pretraining.reset_attention_after =
        tokenizer->special().end_of_document.value();
    pretraining.documents_without_mask = has_ring(config.flags.distributed);
  }
  Trainer trainer(
      {.kind = kind,
       .config = config,
       .plan = plan,
       .model = description,
       .data = std::move(data),
       .engine = made.engine,
       .world = world,
       .mesh = std::move(mesh),
       .pretraining = pretraining,
       .foreign = foreign,
       .timers = timers,
       .versions = versions,
       .prediction = prediction,
       .logger = logger});
  return trainer.run();
}

} // namespace

std::string_view words_for(Ended ended) {
  switch (ended) {
    case Ended::done:
      return "the training is done";
    case Ended::interval:
      return "stopped by --exit-interval";
    case Ended::duration:
      return "stopped by --exit-duration-in-mins";
    case Ended::by_signal:
      return "stopped by a signal, as --exit-signal-handler asks";
    case Ended::nothing_to_do:
      return "nothing to do: the checkpoint is of the end of the run";
  }
  throw InternalError({.what = "no such end"});
}

Outcome run(
    Kind kind,
    const config::Config& config,
    const distributed::World& world,
    const Logger& logger,
    const std::vector<std::pair<std::string, std::string>>& versions) {
  const CheckedRun checked = check_run(kind, config);
  if (world.rank() == 0) {
    logger.info("arguments:{}", config::given_text(config));
    if (config.flags.deepspeed.deepspeed) {
      logger.info("DeepSpeed is enabled.");
    }
    for (const std::string& note : checked.notes) {
      logger.info("{}", note);
    }
  }
  const RunPrediction prediction =
      predict_run(checked.description, config, world);
  if (world.rank() == 0) {
    logger.info("{}", describe(prediction));
  }
  try {
    return train(checked, prediction, kind, config, world, logger, versions);
  } catch (const OutOfMemoryError&) {
    logger.error("{}", memory_by_plan(prediction));
    throw;
  }
}

} // namespace cairn::pretrain
