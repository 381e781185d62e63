#pragma once

#include <cairn/config/config.h>
#include <cairn/model/description.h>

#include <vector>

namespace cairn::pipeline {

/// The cuts of a model's layers (model::layers_of()) for the pipeline stages
/// that a run asks for: part p has the layers from cuts[p] up to cuts[p + 1].
/// With virtual stages there are several parts on each stage, and part p is on
/// stage p % stages.
///
/// Every part has the same number of blocks, as in Megatron; where they do not
/// come out even, the parts with more are in front of a heavy head. The flags
/// --num-layers-in-first-pipeline-stage, --num-layers-in-last-pipeline-stage,
/// --account-for-embedding-in-pipeline-split,
/// --account-for-loss-in-pipeline-split and --pipeline-model-parallel-layout,
/// and the JSON's pipeline.partition ask for other cuts. Throws ConfigError.
std::vector<int> stage_cuts(
    const model::ModelDescription& description,
    const config::Config& config);

} // namespace cairn::pipeline
