#pragma once

#include <cairn/checkpoint/model_description.h>

#include <string>

namespace cairn::pretrain {

/// Throws ConfigError, with the flags to look at, if the checkpoint that --load
/// names holds another model than the flags describe; but for a larger
/// vocabulary, and what does not change the meaning of weights.
void require_same_model(
    const std::string& place,
    const checkpoints::ModelDescription& stored,
    const checkpoints::ModelDescription& described);

} // namespace cairn::pretrain
