#pragma once

#include "pretrain/internal/build_model.h"

#include <cairn/config/config.h>
#include <cairn/model/description.h>
#include <cairn/models/model_layers.h>
#include <cairn/pipeline/layer_spec.h>
#include <cairn/pipeline/micro_batch.h>
#include <cairn/pipeline/pipeline_module.h>

#include <memory>

// A model that is cut into pipeline stages.

namespace cairn::pretrain {

/// True when ranks share sequences by ring attention.
bool has_ring(const config::DistributedFlags& flags);
bool is_pipelined(const config::DistributedFlags& flags);

/// The layer as a pipeline::PipelineModule takes it.
pipeline::LayerSpec layer_spec(const models::ModelLayer& layer);

/// Throws ConfigError, before anything is allocated, if a stage would have
/// nothing to do or to train. `inputs` are those of the micro batches.
void check_stages(
    const model::ModelDescription& description,
    const config::Config& config,
    const models::LayerInputs& inputs);

/// The fields that pretraining_input() gives and the model uses.
models::LayerInputs pretraining_inputs(
    const model::ModelDescription& description,
    const config::Flags& flags);

/// Builds the layers of one stage. `place` says which stage; its chunks,
/// partition and loss are set here.
std::shared_ptr<pipeline::PipelineModule> build_stage(
    const model::ModelDescription& description,
    const models::ModelOptions& options,
    const config::Config& config,
    const BuildOptions& build,
    pipeline::PipelineModuleOptions place);

/// The tensors of an input that the stages take.
pipeline::MicroBatch micro_batch_of(
    const model::ModelDescription& description,
    const models::LayerInputs& inputs,
    const models::ModelInput& input);

} // namespace cairn::pretrain
