#pragma once

#include <cairn/checkpoints/megatron.h>
#include <cairn/config/flags.h>

namespace cairn::pretrain {

/// For files of Megatron's from before it wrote down what a model is: what the
/// flags say of it. Others are held against the flags once they are read, with
/// model_differences().
checkpoints::MegatronReadOptions megatron_reading(
    const config::ModelFlags& flags);

} // namespace cairn::pretrain
