#pragma once

#include "engine/build/job.h"

#include <cairn/pipeline/executor.h>
#include <torch/nn/module.h>

#include <memory>

namespace cairn::inline engine {

/// Makes the executor of a model that is cut into stages; null for any other
/// model. Throws UsageError if the mesh has stages and the model has none.
std::unique_ptr<pipeline::Executor> make_pipeline(
    const Job& job,
    torch::nn::Module& module,
    pipeline::Hooks hooks);

} // namespace cairn::engine
