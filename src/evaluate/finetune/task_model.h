#pragma once

#include "evaluate/finetune/finetune_task.h"
#include "evaluate/finetune/kept_outputs.h"

#include <ATen/core/Tensor.h>
#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/model/description.h>
#include <cairn/models/model_layers.h>
#include <cairn/nn/later_values.h>
#include <cairn/pipeline/micro_batch.h>
#include <cairn/pipeline/pipeline_module.h>

#include <memory>

namespace cairn::evaluate {

/// The head's parameters: "classification.weight" and "classification.bias".
inline constexpr const char* head_name = "classification";

/// The description of the pretrained model's part that a task keeps: all up to
/// the pooler, without the heads of pretraining.
model::ModelDescription without_pretraining_heads(model::ModelDescription d);

struct TaskModelParts {
  const FinetuneTask& task;
  const model::ModelDescription& description;
  const config::Config& config;
  const distributed::ProcessMesh& mesh;
  at::Device device;
  Logger logger;
};

/// The layers of this rank's stage: BERT's, with dropout and a linear layer on
/// the pooled state of the first token behind them. The loss is the cross
/// entropy over classes or choices, or the squared error of a value; each
/// sample counts by its weight.
std::shared_ptr<pipeline::PipelineModule> make_task_model(
    const TaskModelParts& parts,
    const std::shared_ptr<nn::LaterValues>& later,
    const std::shared_ptr<KeptOutputs>& kept);

/// The tensors of a batch as the first layer and the loss take them.
pipeline::MicroBatch task_micro_batch(
    const model::ModelDescription& description,
    const models::ModelInput& input,
    const at::Tensor& labels,
    const at::Tensor& weights);

} // namespace cairn::evaluate
