#pragma once

#include "checkpoints/internal/portable_checkpoint.h"
#include "config/internal/stored_flags.h"

#include <vector>

namespace cairn::pretrain {

/// The arguments that --use-checkpoint-args takes.
struct CheckpointChoice {
  bool layout = false;   ///< the degrees of parallelism, too
  bool tokenizer = true; ///< the tokenizer's kind and model file, too
};

/// The flags that describe a checkpoint's model and, where the run that saved
/// it has said them, its tokenizer and the length of its samples. Those that
/// Megatron-LM takes from a checkpoint whatever the command line says win.
std::vector<config::StoredFlag> flags_of_checkpoint(
    const checkpoints::Portable& stored,
    const CheckpointChoice& choice);

} // namespace cairn::pretrain
