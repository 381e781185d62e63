#pragma once

#include "checkpoints/internal/portable_checkpoint.h"

#include <filesystem>

namespace cairn::checkpoints {

/// Reads a folder of torch.distributed.checkpoint. A Llama of torchtitan's is
/// put under Cairn's names if `options.megatron.args` say what its tensors do
/// not; other tensors keep their names.
Portable read_dcp(const ConvertOptions& options);

/// True when the output has torchtitan's names: a Llama. Other models keep the
/// names that they have.
bool has_titan_names(const Portable& portable);

/// Writes a folder of torch.distributed.checkpoint, with a folder `step-N` in
/// it as torchtitan names them.
void write_dcp(
    const std::filesystem::path& folder,
    const Portable& portable,
    const ConvertOptions& options);

} // namespace cairn::checkpoints
