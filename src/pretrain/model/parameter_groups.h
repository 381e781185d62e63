#pragma once

#include <cairn/config/flags.h>
#include <cairn/engine/optimizer.h>

#include <vector>

namespace cairn::pretrain {

/// The groups of Megatron: parameters whose weights decay, those whose weights
/// do not and, with --decoupled-lr, word embeddings and output layers.
std::vector<ParameterGroup> parameter_groups(
    const torch::nn::Module& module,
    const config::LearningRateFlags& flags);

} // namespace cairn::pretrain
