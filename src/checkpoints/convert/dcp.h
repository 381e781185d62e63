#pragma once

#include "checkpoints/internal/portable_checkpoint.h"

namespace cairn::checkpoints {

/// Reads a folder of torch.distributed.checkpoint. A Llama of torchtitan's is
/// put under Cairn's names if `options.megatron.args` say what its tensors do
/// not; other tensors keep their names.
Portable read_dcp(const ConvertOptions& options);

} // namespace cairn::checkpoints
