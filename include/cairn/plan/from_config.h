#pragma once

#include <cairn/config/config.h>
#include <cairn/plan/estimate.h>

#include <string>

namespace cairn::plan {

/// What a configuration trains. Throws ConfigError where flags do not say it.
Training training_of(model::ModelKind kind, const config::Config& config);
/// The same for a model whose vocabulary is known from its tokenizer.
Training training_of(
    const model::ModelDescription& model,
    const config::Config& config);

/// Returns the training with the program that the cluster's machines run. On a
/// CPU every operator runs by itself, and the head scores fewer tokens at a
/// time. cuDNN's attention is for 16 bits, and for GPUs after the V100.
Training on_machine(Training training, const Cluster& cluster);

/// Bytes of the training state of each parameter. Throws ConfigError for an
/// optimizer whose states are not counted.
StateBytes state_bytes_of(const config::Config& config);

/// The schedule that flags name, as RunLayout does: "zb-h1".
std::string schedule_of(config::PipelineSchedule schedule);

/// The layout that a configuration asks for, of as many ranks as it is
/// resolved for. Throws ConfigError if the batch is missing.
RunLayout layout_of(const config::Config& config);
/// The same with the cut of the pipeline that the configuration asks for.
RunLayout layout_of(
    const model::ModelDescription& model,
    const config::Config& config);

} // namespace cairn::plan
