#pragma once

#include <cairn/checkpoints/megatron.h>
#include <cairn/config/flags.h>

namespace cairn::pretrain {

/// The model of the flags, for Megatron's old files, which do not describe
/// their model. Newer files are compared with the flags once they are read,
/// with model_differences().
checkpoints::MegatronReadOptions megatron_reading(
    const config::ModelFlags& flags);

} // namespace cairn::pretrain
