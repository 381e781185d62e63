#pragma once

#include "checkpoints/internal/portable_checkpoint.h"

#include <cairn/checkpoints/checkpoint_format.h>
#include <cairn/config/flags.h>

#include <optional>

namespace cairn::pretrain {

/// The format of the checkpoint that --load names; none if there is none.
std::optional<checkpoints::CheckpointFormat> stored_format(
    const config::CheckpointFlags& flags);

/// The step of it that --ckpt-step chooses, without optimizer states. Throws
/// CheckpointError.
checkpoints::Portable read_stored(
    checkpoints::CheckpointFormat format,
    const config::Flags& flags);

} // namespace cairn::pretrain
