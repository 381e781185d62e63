#pragma once

#include <cairn/checkpoint/model_description.h>

#include <cstdint>

namespace cairn::pretrain {

/// Elements of all parameters, tied ones once, without padding.
std::int64_t count_parameters(const checkpoints::ModelDescription& model);

} // namespace cairn::pretrain
