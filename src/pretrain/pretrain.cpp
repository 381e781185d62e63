#include <cairn/pretrain/pretrain.h>

#include "pretrain/build_model.h"
#include "pretrain/describe_model.h"
#include "pretrain/flags_schedule.h"
#include "pretrain/foreign_weights.h"
#include "pretrain/pretraining_data.h"
#include "pretrain/run_plan.h"
#include "pretrain/stages.h"
#include "pretrain/state_norms.h"
#include "pretrain/step_times.h"
#include "pretrain/trainer.h"
#include "pretrain/used_flags.h"

#include <ATen/Context.h>
#include <cairn/base/error.h>
#include <cairn/config/reference.h>
#include <cairn/data/index_agreement.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/initialize.h>
#include <cairn/models/load_weights.h>
#include <torch/utils.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

/// What cannot be trained, said before anything is read or allocated.
void check(Kind kind, const config::Config& config) {
  refuse_unused_flags(config);
  const config::Flags& flags = config.flags;
  const config::TrainingFlags& training = flags.training;
  if (training.recompute_granularity ==
      config::RecomputeGranularity::selective) {
    throw ConfigError(
        {.what = "attention is not recomputed by itself",
         .where = "--recompute-granularity selective",
         .remedy = "choose full, or leave it out"});
  }
  const bool recomputes = training.checkpoint_activations ||
      training.recompute_granularity == config::RecomputeGranularity::full;
  if (training.recompute_num_layers && !recomputes) {
    throw ConfigError(
        {.what = "nothing is recomputed",
         .where = "--recompute-num-layers",
         .remedy = "give --checkpoint-activations as well"});
  }
  if (flags.logging.optimizer_states_to_tensorboard) {
    require_moments(config.deepspeed.optimizer);
  }
  if (flags.data.reset_attention_mask && kind != Kind::gpt) {
    throw ConfigError(
        {.what = "documents are kept apart in GPT's samples only",
         .where = "--reset-attention-mask"});
  }
}

void seed_generators(
    const config::TrainingFlags& flags,
    const distributed::ProcessMesh& mesh) {
  // Ranks of a tensor group draw alike, data parallel ones each their own.
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

} // namespace

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::gpt:
      return "gpt";
    case Kind::bert:
      return "bert";
    case Kind::t5:
      return "t5";
  }
  throw InternalError({.what = "no such model"});
}

std::string_view words_for(Ended ended) {
  switch (ended) {
    case Ended::done:
      return "the training is done";
    case Ended::interval:
      return "stopped by --exit-interval";
    case Ended::duration:
      return "stopped by --exit-duration-in-mins";
    case Ended::by_signal:
      return "stopped by SIGTERM";
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
  check(kind, config);
  if (world.rank() == 0) {
    logger.info("arguments:{}", config::given_text(config));
    if (config.flags.deepspeed.deepspeed) {
      logger.info("DeepSpeed is enabled.");
    }
  }
  RunPlan plan = plan_run(config);
  const auto schedule = flags_schedule(config);
  const auto tokenizer = open_tokenizer(kind, config.flags);
  checkpoints::ModelDescription description = describe_model(
      kind,
      config.flags,
      static_cast<std::int64_t>(tokenizer->vocab_size()));
  const auto foreign = foreign_weights(config.flags.checkpointing, description);
  if (foreign) {
    description =
        describe_model(kind, config.flags, foreign->description.vocabulary);
  }
  check_stages(description, config);
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
  BuildOptions building = build_options(description, config.flags);
  if (foreign) {
    building.seed.reset();
  }
  const Model model = build_model(
      description,
      config,
      mesh,
      at::Device(world.device_name()),
      logger,
      building);
  if (foreign) {
    models::load_weights(model.module(), description, foreign->tensors);
  }
  const auto timers = make_timers(config, at::Device(world.device_name()));
  Initialized made = initialize(
      {.model = model,
       .model_parameters = no_decay_groups(model.module()),
       .lr_scheduler = schedule,
       .lr_scheduler_counts_samples = schedule != nullptr,
       .mesh = mesh,
       .settings = config,
       .keys_acted_on =
           {"tensorboard",
            "csv_monitor",
            "pipeline.partition",
            "pipeline.stages"},
       .timers = timers,
       .description = description,
       .world = world,
       .logger = logger});

  models::PretrainingOptions pretraining;
  if (config.flags.data.reset_attention_mask) {
    pretraining.reset_attention_after =
        tokenizer->special().end_of_document.value();
  }
  Trainer trainer(
      {.kind = kind,
       .config = config,
       .plan = std::move(plan),
       .model = description,
       .data = std::move(data),
       .engine = made.engine,
       .world = world,
       .mesh = std::move(mesh),
       .pretraining = pretraining,
       .weights = foreign ? std::optional(foreign->format) : std::nullopt,
       .timers = timers,
       .versions = versions,
       .logger = logger});
  return trainer.run();
}

} // namespace cairn::pretrain
