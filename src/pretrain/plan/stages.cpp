#include "pretrain/internal/stages.h"

#include "pipeline/internal/stage_cuts.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

using model::ModelDescription;
using model::ModelFamily;
using models::ModelInput;

/// The loss, and behind it what it is the sum of.
pipeline::Loss loss_with_parts(const models::LayeredModel& model) {
  return [output = model.output](
             const pipeline::Tensors& outputs,
             const pipeline::Tensors& labels) {
    const models::ModelOutput result = output(outputs, labels);
    pipeline::Tensors losses{result.loss};
    for (const auto& [name, loss] : result.losses) {
      losses.push_back(loss);
    }
    return losses;
  };
}

} // namespace

pipeline::LayerSpec layer_spec(const models::ModelLayer& layer) {
  pipeline::LayerSpec spec = pipeline::LayerSpec::built_by(
                                 layer.build,
                                 [forward = layer.forward](
                                     torch::nn::Module& module,
                                     const pipeline::Tensors& inputs) {
                                   return forward(module, inputs);
                                 })
                                 .named(layer.name);
  spec.type = layer.type;
  spec.tie = layer.tie;
  spec.parameters = layer.parameters;
  return spec;
}

models::LayerInputs pretraining_inputs(
    const ModelDescription& d,
    const config::Flags& flags) {
  models::LayerInputs fields;
  fields.labels.push_back(&ModelInput::loss_mask);
  if (d.dropout > 0 || d.attention_dropout > 0) {
    fields.inputs.push_back(&ModelInput::samples);
  }
  switch (d.family) {
    case ModelFamily::gpt2:
    case ModelFamily::llama:
      if (flags.data.reset_position_ids ||
          flags.distributed.context_parallel > 1) {
        fields.inputs.push_back(&ModelInput::positions);
      }
      if (flags.data.reset_attention_mask) {
        fields.inputs.push_back(
            has_ring(flags.distributed) ? &ModelInput::first_seen
                                        : &ModelInput::mask);
      }
      break;
    case ModelFamily::bert:
    case ModelFamily::roberta:
      fields.inputs.push_back(&ModelInput::mask);
      if (d.token_types > 0) {
        fields.inputs.push_back(&ModelInput::token_types);
      }
      if (d.next_sentence_head) {
        fields.labels.push_back(&ModelInput::next_sentence);
      }
      break;
    case ModelFamily::t5:
      fields.inputs.insert(
          fields.inputs.end(),
          {&ModelInput::mask,
           &ModelInput::decoder_tokens,
           &ModelInput::decoder_mask});
      break;
  }
  return fields;
}

bool has_ring(const config::DistributedFlags& flags) {
  return flags.context_parallel > 1 &&
      flags.context_parallel_kind == config::ContextParallelKind::ring;
}

bool is_pipelined(const config::DistributedFlags& flags) {
  return flags.pipeline_parallel > 1;
}

void check_stages(
    const ModelDescription& d,
    const config::Config& config,
    const models::LayerInputs& inputs) {
  if (!is_pipelined(config.flags.distributed)) {
    return;
  }
  const auto stages =
      static_cast<int>(config.flags.distributed.pipeline_parallel);
  const std::vector<models::ModelLayer> layers =
      models::model_layers(d, {}, inputs).layers;
  const std::vector<int> cuts = pipeline::stage_cuts(d, config);
  const auto stage_of = [&](std::size_t part) {
    return static_cast<int>(part) % stages;
  };
  std::map<std::string, int> owners; // tied layers belong to the first stage
  std::vector<bool> trains(static_cast<std::size_t>(stages));
  const auto each_layer = [&](const auto& visit) {
    for (std::size_t part = 0; part + 1 < cuts.size(); ++part) {
      for (int i = cuts[part]; i < cuts[part + 1]; ++i) {
        visit(layers[static_cast<std::size_t>(i)], stage_of(part));
      }
    }
  };
  each_layer([&](const models::ModelLayer& layer, int stage) {
    const auto owner = owners.emplace(layer.tie, stage).first;
    owner->second = std::min(owner->second, stage);
  });
  each_layer([&](const models::ModelLayer& layer, int stage) {
    const bool own = layer.tie.empty() || owners[layer.tie] == stage;
    if (own && layer.parameters > 0) {
      trains[static_cast<std::size_t>(stage)] = true;
    }
  });
  for (std::size_t stage = 0; stage < trains.size(); ++stage) {
    if (!trains[stage]) {
      throw ConfigError(
          {.what = "a pipeline stage would have no parameters of its own",
           .where = "pipeline.partition",
           .values = fmt::format(
               "stage {} of {} would have layers {} to {} of {}",
               stage,
               stages,
               cuts[stage],
               cuts[stage + 1] - 1,
               layers.size()),
           .remedy = "use fewer stages, or leave the partition out: then "
                     "every stage has some of the model's blocks"});
    }
  }
}

std::shared_ptr<pipeline::PipelineModule> build_stage(
    const ModelDescription& d,
    const models::ModelOptions& options,
    const config::Config& config,
    const BuildOptions& build,
    pipeline::PipelineModuleOptions place) {
  const models::LayeredModel model =
      models::model_layers(d, options, build.inputs);
  std::vector<pipeline::LayerSpec> layers;
  for (const models::ModelLayer& layer : model.layers) {
    layers.push_back(layer_spec(layer));
  }
  place.partition = {
      .kind = pipeline::PartitionMethod::Kind::cuts,
      .cuts = pipeline::stage_cuts(d, config)};
  // The micro batches of a batch are alike; a curriculum changes them between.
  place.announce = pipeline::Announce::each_batch;
  place.chunks =
      static_cast<int>(place.partition.cuts.size() - 1) / place.stages;
  if (build.loss) {
    place.loss = build.loss(model);
  } else {
    place.loss = loss_with_parts(model);
    place.loss_parts = model.losses;
  }
  return std::make_shared<pipeline::PipelineModule>(
      std::move(layers),
      std::move(place));
}

pipeline::MicroBatch micro_batch_of(
    const ModelDescription& d,
    const models::LayerInputs& inputs,
    const ModelInput& input) {
  models::LayerTensors tensors = models::layer_tensors(d, inputs, input);
  return {std::move(tensors.inputs), std::move(tensors.labels)};
}

} // namespace cairn::pretrain
