#include "pretrain/probe/probe_hidden.h"

#include "models/internal/load_weights.h"
#include "pretrain/internal/build_model.h"
#include "pretrain/internal/stages.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tanh.h>
#include <cairn/base/error.h>
#include <cairn/models/model_layers.h>
#include <cairn/nn/linear.h>
#include <cairn/pipeline/pipeline_module.h>
#include <fmt/format.h>

#include <memory>
#include <utility>
#include <vector>

namespace cairn::pretrain {

bool has_hidden_states_alone(const model::ModelDescription& model) {
  return kind_of(model.family) == model::ModelKind::bert && !model.masked_head;
}

void check_hidden_states(const config::Config& config) {
  const auto stages = config.flags.distributed.pipeline_parallel;
  if (stages > 1 || config.data_parallel_size > 1) {
    throw ConfigError(
        {.what = "hidden states are computed by ranks that split tensors alone",
         .where = "--tensor-model-parallel-size",
         .values = fmt::format(
             "{} stages, {} data parallel ranks",
             stages,
             config.data_parallel_size),
         .remedy = "use as many tensor parallel ranks as there are ranks"});
  }
}

std::map<std::string, at::Tensor> hidden_states(
    const models::StoredModel& stored,
    const ProbeInput& input,
    const config::Config& config,
    const distributed::World& world,
    const Logger& logger) {
  model::ModelDescription model = stored.description;
  model.dropout = 0;
  model.attention_dropout = 0;
  const distributed::ProcessMesh mesh =
      mesh_of(config.flags.distributed, world.group());
  const at::Device device(world.device_name());
  models::ModelOptions options{
      .tensor_group = mesh.along(distributed::Axis::tensor),
      .sequence_parallel = config.flags.distributed.sequence_parallel,
      .device = device,
      .seed = std::nullopt};
  if (config.deepspeed.fp16.enabled || config.deepspeed.bf16.enabled) {
    options.dtype = config.deepspeed.fp16.enabled ? at::kHalf : at::kBFloat16;
  }
  models::LayerInputs fields = input.layer_inputs();
  fields.labels.clear();
  std::vector<pipeline::LayerSpec> layers;
  for (const auto& layer :
       models::model_layers(model, options, fields).layers) {
    layers.push_back(layer_spec(layer));
  }
  pipeline::PipelineModule module(std::move(layers));
  module.eval();
  checkpoints::NamedTensors tensors = stored.tensors;
  std::erase_if(tensors, [](const auto& named) { // a fine-tuned model's head
    return named.first.starts_with("classification.");
  });
  models::load_weights(module, model, tensors);
  logger.info("{} rows of {} tokens", input.rows(), input.length());

  const at::NoGradGuard no_grad;
  models::Tensors given =
      models::layer_tensors(model, fields, input.batch(0, 0, input.rows()))
          .inputs;
  for (at::Tensor& each : given) {
    each = each.to(device);
  }
  const at::Tensor hidden = module.forward(given).front();
  std::map<std::string, at::Tensor> results{
      {"last_hidden_state", hidden.to(at::kCPU, at::kFloat)}};
  if (model.pooler) {
    const auto& pooler =
        dynamic_cast<const nn::Linear&>(*module.named_children()["pooler"]);
    results["pooler_output"] =
        at::tanh(pooler.forward(hidden.select(1, 0))).to(at::kCPU, at::kFloat);
  }
  return results;
}

} // namespace cairn::pretrain
