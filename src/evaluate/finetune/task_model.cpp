#include "evaluate/finetune/task_model.h"

#include "evaluate/finetune/task_loss.h"
#include "models/internal/layer_context.h"
#include "pipeline/internal/stage_cuts.h"
#include "pretrain/internal/stages.h"

#include <ATen/ops/tanh.h>
#include <cairn/models/transformer.h>
#include <cairn/nn/dropout.h>
#include <cairn/nn/linear.h>
#include <cairn/pipeline/layer_spec.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::evaluate {
namespace {

using distributed::Axis;
using models::ModelInput;
using models::Tensors;

/// Dropout of the pooled state, and the layer that scores it.
class ClassificationHead : public nn::Linear {
 public:
  ClassificationHead(
      const nn::LayerContext& context,
      const model::ModelDescription& d,
      std::int64_t outputs)
      : Linear(context, {.in = d.hidden, .out = outputs}),
        dropout_(context, "pooled", d.dropout) {}

  /// `pooled`: [rows, hidden]; `samples`: numbers of the rows, or undefined.
  at::Tensor score(const at::Tensor& pooled, const at::Tensor& samples) const {
    if (!is_training() || !dropout_.is_on()) {
      return forward(pooled);
    }
    return forward(dropout_.forward(pooled.unsqueeze(1), samples).squeeze(1));
  }

 private:
  nn::Dropout dropout_;
};

bool drops(const model::ModelDescription& d) {
  return d.dropout > 0 || d.attention_dropout > 0;
}

/// The fields that BERT's layers take of every micro batch.
models::LayerInputs inputs_of(const model::ModelDescription& d) {
  models::LayerInputs fields{
      .inputs =
          {&ModelInput::tokens, &ModelInput::mask, &ModelInput::token_types},
      .labels = {}};
  if (drops(d)) {
    fields.inputs.push_back(&ModelInput::samples);
  }
  return fields;
}

/// The layer with the numbers of the samples beside what it takes and gives.
/// BERT's blocks are the last to use their own, but the head drops too.
models::ModelLayer beside_samples(models::ModelLayer layer) {
  layer.forward = [forward = std::move(layer.forward)](
                      torch::nn::Module& module,
                      const Tensors& given) {
    Tensors result = forward(module, Tensors(given.begin(), given.end() - 1));
    result.push_back(given.back());
    return result;
  };
  return layer;
}

/// The pooler as the description's list has it only joins the tokens of ranks
/// that split them. This one gives the pooled state too.
models::ModelLayer pooling(models::ModelLayer layer) {
  layer.forward = [join = std::move(layer.forward)](
                      torch::nn::Module& module,
                      const Tensors& given) {
    const auto& pooler = dynamic_cast<const nn::Linear&>(module);
    const at::Tensor hidden = join(module, given).front();
    return Tensors{at::tanh(pooler.forward(hidden.select(1, 0)))};
  };
  return layer;
}

models::ModelLayer head_layer(
    const TaskModelParts& parts,
    nn::LayerContext context) {
  context.sequence_parallel = false; // the pooled state is whole everywhere
  const model::ModelDescription& d = parts.description;
  const std::int64_t outputs = parts.task.outputs();
  models::ModelLayer layer{
      {.name = head_name,
       .type = "head",
       .parameters = (d.hidden + 1) * outputs}};
  layer.build = [context = context.in(head_name), d, outputs] {
    return std::make_shared<ClassificationHead>(context, d, outputs);
  };
  layer.forward = [](torch::nn::Module& module, const Tensors& given) {
    const auto& head = dynamic_cast<const ClassificationHead&>(module);
    return Tensors{
        head.score(given[0], given.size() > 1 ? given[1] : at::Tensor())};
  };
  return layer;
}

models::ModelOptions options_of(
    const TaskModelParts& parts,
    const std::shared_ptr<nn::LaterValues>& later) {
  const config::Flags& flags = parts.config.flags;
  return {
      .tensor_group = parts.mesh.along(Axis::tensor),
      .sequence_parallel = flags.distributed.sequence_parallel,
      .overlap_tokens = flags.distributed.tp_comm_overlap,
      .device = parts.device,
      .seed = static_cast<std::uint64_t>(flags.training.seed),
      .initial_std = flags.model.init_method_std,
      .later = later,
      .dropout_seed = static_cast<std::uint64_t>(flags.training.seed)};
}

std::vector<models::ModelLayer> layers_of(
    const TaskModelParts& parts,
    const models::ModelOptions& options) {
  const model::ModelDescription& d = parts.description;
  std::vector<models::ModelLayer> layers =
      models::model_layers(d, options, inputs_of(d)).layers;
  layers.back() = pooling(std::move(layers.back()));
  if (drops(d)) {
    for (models::ModelLayer& layer : layers) {
      layer = beside_samples(std::move(layer));
    }
  }
  layers.push_back(head_layer(parts, models::layer_context(options)));
  return layers;
}

pipeline::Loss loss_of(
    const FinetuneTask& task,
    const std::shared_ptr<KeptOutputs>& kept) {
  return [task, kept](
             const pipeline::Tensors& outputs,
             const pipeline::Tensors& labels) {
    const at::Tensor scores = sample_scores(task, outputs.at(0));
    kept->offer(scores);
    return pipeline::Tensors{
        task_loss(task, scores, labels.at(0), labels.at(1))};
  };
}

} // namespace

model::ModelDescription without_pretraining_heads(model::ModelDescription d) {
  d.pooler = true;
  d.masked_head = false;
  d.next_sentence_head = false;
  d.head_bias = false;
  d.tied_head = true;
  return d;
}

std::shared_ptr<pipeline::PipelineModule> make_task_model(
    const TaskModelParts& parts,
    const std::shared_ptr<nn::LaterValues>& later,
    const std::shared_ptr<KeptOutputs>& kept) {
  std::vector<pipeline::LayerSpec> specs;
  for (const models::ModelLayer& layer :
       layers_of(parts, options_of(parts, later))) {
    specs.push_back(pretrain::layer_spec(layer));
  }
  pipeline::PipelineModuleOptions place{
      .stage = parts.mesh.coordinate(Axis::pipeline),
      .stages = parts.mesh.degree(Axis::pipeline),
      .loss = loss_of(parts.task, kept),
      .announce = pipeline::Announce::each_batch};
  place.partition = {
      .kind = pipeline::PartitionMethod::Kind::cuts,
      .cuts = pipeline::stage_cuts(parts.description, parts.config)};
  place.partition.cuts.back() = static_cast<int>(specs.size());
  place.chunks =
      static_cast<int>(place.partition.cuts.size() - 1) / place.stages;
  const config::TrainingFlags& training = parts.config.flags.training;
  if (training.recomputes_layers()) {
    place.activation_checkpoint_interval =
        training.recompute_num_layers.value_or(1);
    if (training.recompute_method == config::RecomputeMethod::block) {
      place.checkpointed_blocks = place.activation_checkpoint_interval;
    }
    place.checkpoint = nn::CheckpointOptions::from(
        parts.config.deepspeed.activation_checkpointing,
        parts.mesh.along(Axis::tensor),
        parts.logger);
  }
  return std::make_shared<pipeline::PipelineModule>(
      std::move(specs),
      std::move(place));
}

pipeline::MicroBatch task_micro_batch(
    const model::ModelDescription& d,
    const models::ModelInput& input,
    const at::Tensor& labels,
    const at::Tensor& weights) {
  Tensors inputs = models::layer_tensors(d, inputs_of(d), input).inputs;
  if (drops(d)) {
    inputs.push_back(input.samples); // for the head
  }
  return {std::move(inputs), {labels, weights}};
}

} // namespace cairn::evaluate
