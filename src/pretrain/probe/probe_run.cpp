#include "pretrain/probe/probe_run.h"

#include "config/internal/actors.h"
#include "models/internal/load_weights.h"
#include "pretrain/internal/stages.h"
#include "pretrain/plan/flags_schedule.h"
#include "zero/internal/sum_over.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <cairn/base/error.h>
#include <cairn/engine/initialize.h>

#include <cmath>
#include <utility>

namespace cairn::pretrain {

namespace {

using distributed::Axis;

/// Two programs never drop the same elements.
model::ModelDescription without_dropout(model::ModelDescription model) {
  model.dropout = 0;
  model.attention_dropout = 0;
  return model;
}

/// DeepSpeed's optimizers decay what they are given, Megatron's flags spare
/// biases and norms.
bool optimizer_is_megatrons(const config::Config& config) {
  const auto place = config.given.find("optimizer.type");
  return place != config.given.end() && place->second.file.empty();
}

/// The loss of a pass, whose mean over labels counts weight[0] of weight[1] in
/// the step's mean. The next-sentence loss needs no weight: it is asked once a
/// row, and rows are divided evenly.
at::Tensor weighted_loss(
    const models::ModelOutput& output,
    const at::Tensor& weight) {
  at::Tensor sum;
  for (const auto& [name, loss] : output.losses) {
    const at::Tensor weighted =
        name == "lm loss" ? loss * weight[0] / weight[1] : loss;
    sum = sum.defined() ? sum + weighted : weighted;
  }
  return sum;
}

at::Tensor on_device(const at::Tensor& x, at::Device device) {
  return x.defined() ? x.to(device) : x;
}

} // namespace

ProbeRun::ProbeRun(
    const Parts& parts,
    const distributed::World& world,
    const Logger& logger)
    : parts_(parts),
      model_(without_dropout(parts.stored.description)),
      mesh_(mesh_of(parts.config.flags.distributed, world.group())),
      batch_(*parts.config.deepspeed.batch),
      norms_(model_),
      engine_(make_engine(world, logger)) {
  engine_.watch_gradients(
      [this](const checkpoints::TensorSlice& slice) { norms_.add(slice); });
}

Engine ProbeRun::make_engine(
    const distributed::World& world,
    const Logger& logger) {
  BuildOptions building{.inputs = parts_.input.layer_inputs()};
  building.loss = [this](const models::LayeredModel& layered) {
    return stage_loss(layered);
  };
  const Model model = build_model(
      model_,
      parts_.config,
      mesh_,
      at::Device(world.device_name()),
      logger,
      building);
  models::load_weights(model.module(), model_, parts_.stored.tensors);
  const bool megatrons = parts_.train && optimizer_is_megatrons(parts_.config);
  const auto schedule = megatrons ? flags_schedule(parts_.config) : nullptr;
  return initialize(
             {.model = model,
              .model_parameters = megatrons ? no_decay_groups(model.module())
                                            : std::vector<ParameterGroup>{},
              .lr_scheduler = schedule,
              .lr_scheduler_counts_samples = schedule != nullptr,
              .mesh = mesh_,
              .settings = parts_.config,
              .keys_acted_on = config::keys_acted_on_by(config::Actor::probe),
              .world = world,
              .logger = logger})
      .engine;
}

/// Passes take rows one rank after the other.
ProbeRun::Share ProbeRun::share(std::int64_t step, std::int64_t pass) const {
  const distributed::ProcessGroup& sharing = mesh_.data_context();
  Share share{.step = step};
  share.first = (pass * sharing.size() + sharing.rank()) * batch_.micro;
  share.asked = parts_.input.asked(step, share.first, batch_.micro) *
      batch_.accumulation * sharing.size();
  share.of = parts_.input.asked(step, 0, parts_.input.rows());
  return share;
}

models::ModelInput ProbeRun::batch(const Share& share) const {
  models::ModelInput input =
      parts_.input.batch(share.step, share.first, batch_.micro);
  for (at::Tensor* const each :
       {&input.tokens,
        &input.positions,
        &input.token_types,
        &input.mask,
        &input.decoder_tokens,
        &input.decoder_mask,
        &input.labels,
        &input.next_sentence}) {
    *each = on_device(*each, engine_.device());
  }
  input.want_logits = parts_.logits;
  return input;
}

/// The loss of a pipeline. Its micro batches bring the weight of their mean
/// beside the labels.
pipeline::Loss ProbeRun::stage_loss(const models::LayeredModel& layered) {
  return [this, output = layered.output](
             const models::Tensors& outputs,
             const models::Tensors& labels) -> models::Tensors {
    if (parts_.logits) {
      keep(output(outputs, {}));
    }
    models::Tensors asked = labels;
    const at::Tensor weight = asked.back();
    asked.pop_back();
    return {weighted_loss(output(outputs, asked), weight)};
  };
}

/// Trains on the rows of a step, and returns the mean loss of this rank's.
double ProbeRun::run_batch(std::int64_t step) {
  std::int64_t pass = 0;
  BatchPasses::Forward forward = [&] {
    const Share mine = share(step, pass++);
    const auto output = engine_.forward<models::ModelOutput>(batch(mine));
    if (parts_.logits) {
      keep(output);
    }
    return BatchLoss(weighted_loss(output, weight_of(mine)));
  };
  pipeline::NextMicroBatch next = [&] {
    const Share mine = share(step, pass++);
    pipeline::MicroBatch given =
        micro_batch_of(model_, parts_.input.layer_inputs(), batch(mine));
    given.labels.push_back(weight_of(mine));
    return std::optional(std::move(given));
  };
  return engine_.train_batch({std::move(forward), std::move(next)})
      .item<double>();
}

at::Tensor ProbeRun::weight_of(const Share& share) const {
  return at::tensor(
      {share.asked, share.of},
      at::TensorOptions(at::kLong).device(engine_.device()));
}

/// Scores, on the ranks that have them for all.
void ProbeRun::keep(const models::ModelOutput& output) {
  if (!mesh_.is_last_stage() || mesh_.coordinate(Axis::tensor) != 0) {
    return;
  }
  const auto add = [&](const char* name, const at::Tensor& scores) {
    if (scores.defined()) {
      kept_[name].push_back(scores.detach().to(at::kCPU, at::kFloat));
    }
  };
  add("logits", output.logits);
  add("next_sentence_logits", output.next_sentence_logits);
}

/// All rows, on rank 0, from the ranks that keep them; `shape` is a row's.
at::Tensor ProbeRun::gathered(
    const std::string& name,
    const std::vector<std::int64_t>& shape) {
  const distributed::ProcessGroup& world = mesh_.world();
  const at::Device device =
      world.backend() == "nccl" ? engine_.device() : at::Device(at::kCPU);
  std::vector<std::int64_t> whole{batch_.accumulation, batch_.micro};
  whole.insert(whole.end(), shape.begin(), shape.end());
  std::vector<at::Tensor> parts; // of the ranks that share the data
  for (int rank = 0; rank < world.size(); ++rank) {
    const distributed::MeshLayout& layout = mesh_.layout();
    if (!layout.is_last_stage(rank) ||
        layout.coordinate(rank, Axis::tensor) != 0) {
      continue;
    }
    if (world.rank() == rank) {
      at::Tensor mine = at::stack(kept_.at(name));
      if (rank == 0) {
        parts.push_back(std::move(mine));
      } else {
        world.send(mine.to(device), 0).wait();
      }
    } else if (world.rank() == 0) {
      at::Tensor theirs =
          at::empty(whole, at::TensorOptions(at::kFloat).device(device));
      world.recv(theirs, rank).wait();
      parts.push_back(theirs.cpu());
    }
  }
  return world.rank() == 0 ? at::stack(parts, 1).flatten(0, 2) : at::Tensor();
}

ProbeRun::Result ProbeRun::step(std::int64_t number) {
  Result result;
  result.step.learning_rates = engine_.progress().learning_rates;
  kept_.clear();
  const double loss = run_batch(number);
  const distributed::ProcessGroup& sharing = mesh_.data_context();
  result.step.loss =
      zero::sum_over(sharing, at::full({1}, loss, at::kDouble)).item<double>() /
      sharing.size();
  result.gradient_norms = norms_.take(mesh_.world());
  double squares = 0;
  for (const double norm : result.gradient_norms) {
    squares += norm * norm;
  }
  result.step.gradient_norm = std::sqrt(squares);
  if (parts_.logits) {
    result.scores["logits"] =
        gathered("logits", {parts_.input.label_length(), model_.vocabulary});
    if (model_.next_sentence_head) {
      result.scores["next_sentence_logits"] =
          gathered("next_sentence_logits", {2});
    }
  }
  return result;
}

std::vector<double> ProbeRun::weight_norms() {
  engine_.visit_weights(
      [this](const checkpoints::TensorSlice& slice) { norms_.add(slice); });
  return norms_.take(mesh_.world());
}

} // namespace cairn::pretrain
