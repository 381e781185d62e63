#include <cairn/pretrain/pretrain.h>

#include "pretrain/build_model.h"
#include "pretrain/describe_model.h"
#include "pretrain/pretraining_data.h"
#include "pretrain/run_plan.h"
#include "pretrain/stages.h"
#include "pretrain/trainer.h"
#include "pretrain/used_flags.h"

#include <ATen/Context.h>
#include <cairn/base/error.h>
#include <cairn/data/index_agreement.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/initialize.h>
#include <cairn/optim/megatron_schedule.h>
#include <torch/utils.h>

#include <memory>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

distributed::ProcessMesh mesh_of(
    const config::DistributedFlags& flags,
    const distributed::World& world) {
  return distributed::ProcessMesh(
      world.group(),
      distributed::MeshShape::infer(
          world.size(),
          {.pipeline = static_cast<int>(flags.pipeline_parallel),
           .tensor = static_cast<int>(flags.tensor_parallel)}));
}

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

/// `--DDP-impl local` reduces gradients when backward is over.
config::Config with_ddp_choice(config::Config config) {
  const auto place = config.given.find("--DDP-impl");
  if (place != config.given.end() &&
      config.flags.distributed.ddp_impl == config::DdpImpl::local) {
    config.deepspeed.zero.overlap_comm = false;
    config.given.emplace("zero_optimization.overlap_comm", place->second);
  }
  return config;
}

/// The flags' schedule, unless the JSON has one.
std::shared_ptr<const optim::Schedule> schedule_of(
    const config::Config& config) {
  if (config.deepspeed.scheduler.type) {
    return nullptr;
  }
  return optim::megatron_schedule(
      optim::megatron_schedule_options(
          config.flags,
          config.deepspeed.batch->train),
      {{}, {.weight_decay_multiplier = 0}}); // as no_decay_groups() has them
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

Outcome run(
    Kind kind,
    const config::Config& config,
    const distributed::World& world,
    const Logger& logger) {
  check(kind, config);
  RunPlan plan = plan_run(config);
  const auto schedule = schedule_of(config);
  const auto tokenizer = open_tokenizer(kind, config.flags);
  const checkpoints::ModelDescription description = describe_model(
      kind,
      config.flags,
      static_cast<std::int64_t>(tokenizer->vocab_size()));
  check_stages(description, config);
  distributed::ProcessMesh mesh = mesh_of(config.flags.distributed, world);

  PretrainingData data = open_data(
      kind,
      config.flags,
      *tokenizer,
      plan.samples_needed(),
      world.rank() == 0 ? logger : Logger({.least = LogLevel::error}));
  require_same_order(data, world.group());

  seed_generators(config.flags.training, mesh);
  const Model model = build_model(
      description,
      config,
      mesh,
      at::Device(world.device_name()),
      logger);
  Initialized made = initialize(
      {.model = model,
       .model_parameters = no_decay_groups(model.module()),
       .lr_scheduler = schedule,
       .lr_scheduler_counts_samples = schedule != nullptr,
       .mesh = mesh,
       .settings = with_ddp_choice(config),
       .keys_acted_on =
           {"tensorboard",
            "csv_monitor",
            "pipeline.partition",
            "pipeline.stages"},
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
       .logger = logger});
  return trainer.run();
}

} // namespace cairn::pretrain
